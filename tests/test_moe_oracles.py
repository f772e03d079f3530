"""Test the oracles of mixtures of experts against second sources."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from oracles import elementwise, moe, normalization

# float64 keeps 15 to 16 digits; sums of a few hundred terms lose two of them.
EXACT: Any = {"rtol": 1e-13, "atol": 1e-13}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_shares_of_a_hand_worked_row() -> None:
    # Weights 1, 4, 2 and 1 of 8.
    logits = np.log(np.array([[[1, 4, 2, 1]]])).astype(np.float32)
    ids, share = moe.expert_router(logits, 3)
    assert ids.tolist() == [[[1, 2, 0]]]
    np.testing.assert_allclose(share, [[[4 / 8, 2 / 8, 1 / 8]]], rtol=1e-7)
    renormalized = moe.renormalize(share)
    np.testing.assert_allclose(renormalized, [[[4 / 7, 2 / 7, 1 / 7]]], rtol=1e-7)


def test_renormalized_shares_are_the_softmax_over_the_chosen_logits() -> None:
    logits = normal(2, 7, 9)
    ids, share = moe.expert_router(logits, 4)
    chosen = np.take_along_axis(logits.astype(np.float64), ids, -1)
    expected = np.exp(chosen) / np.exp(chosen).sum(-1, keepdims=True)
    np.testing.assert_allclose(moe.renormalize(share), expected, **EXACT)
    assert (np.diff(chosen, axis=-1) <= 0).all()
    assert (chosen.min(-1) >= np.partition(logits, -5)[..., -5]).all()


def test_all_experts_have_all_shares() -> None:
    _, share = moe.expert_router(normal(2, 3, 6), 6)
    np.testing.assert_allclose(share.sum(-1), 1, **EXACT)


def test_equal_logits_go_to_the_lower_number() -> None:
    ids, share = moe.expert_router(np.zeros((1, 1, 5), np.float32), 3)
    assert ids.tolist() == [[[0, 1, 2]]]
    np.testing.assert_allclose(share, 1 / 5, **EXACT)


def mixture(
    x: np.ndarray, weights: tuple[np.ndarray, ...], chosen: Any, share: Any
) -> np.ndarray:
    """Return a feed-forward mixture as sums over numbers, expert by expert."""
    gate, up, down = (weight.astype(np.float64) for weight in weights)
    x, y = x.astype(np.float64), np.zeros(len(x))
    for expert, part in zip(chosen, share, strict=True):
        inner = []
        for g, u in zip(gate[expert], up[expert], strict=True):
            opening = math.fsum(g * x)
            inner.append(opening / (1 + math.exp(-opening)) * math.fsum(u * x))
        for j, row in enumerate(down[expert]):
            y[j] += float(part) * math.fsum(row * inner)
    return y


@pytest.mark.parametrize(
    "ids",
    [
        [[[0, 1], [1, 2], [2, 3]]],  # several
        [[[3, 3], [3, 3], [3, 3]]],  # one for all
        [[[2, 0], [2, 0], [0, 2]]],
    ],
)
def test_a_mixture_is_its_sums(ids: list[list[list[int]]]) -> None:
    chosen = np.array(ids, np.int32)
    x, share = normal(1, 3, 5), np.abs(normal(1, 3, 2, seed=1))
    weights = normal(4, 6, 5, seed=2), normal(4, 6, 5, seed=3), normal(4, 5, 6, seed=4)
    gate, up = (moe.mul_mat_id(weight, chosen, x) for weight in weights[:2])
    inner = gate / (1 + np.exp(-gate)) * up
    y = moe.expert_sum(share, moe.mul_mat_id_per_expert_x(weights[2], chosen, inner))
    for s in range(3):
        expected = mixture(x[0, s], weights, chosen[0, s], share[0, s])
        np.testing.assert_allclose(y[0, s], expected, **EXACT)


def test_one_expert_is_a_matrix() -> None:
    x, weight = normal(2, 3, 5), normal(1, 4, 5, seed=1)
    ids = np.zeros((2, 3, 1), np.int32)
    y = moe.mul_mat_id(weight, ids, x)
    expected = np.einsum("bsi,oi->bso", x.astype(np.float64), weight[0])
    np.testing.assert_allclose(y, expected, **EXACT)


def test_tiles_hold_the_rows_of_each_expert() -> None:
    weight, ids = normal(3, 8, 5, seed=1), np.array([[[0, 2], [1, 2]]], np.int32)
    tiles = np.empty((3, 2, 5, 4), np.float32)
    for expert in range(3):
        for o in range(8):
            tiles[expert, o // 4, :, o % 4] = weight[expert, o]
    x, each = normal(1, 2, 5), normal(1, 2, 10)
    np.testing.assert_array_equal(
        moe.mul_mat_id_packed(tiles, ids, x), moe.mul_mat_id(weight, ids, x)
    )
    np.testing.assert_array_equal(
        moe.mul_mat_id_per_expert_x_packed(tiles, ids, each),
        moe.mul_mat_id_per_expert_x(weight, ids, each),
    )


@pytest.mark.parametrize("name", ["mul_mat_id", "mul_mat_id_per_expert_x"])
def test_stored_types_are_the_formulas_of_their_headers(name: str) -> None:
    rng = np.random.default_rng(6)
    codes = rng.integers(-127, 128, (3, 2, 5, 4)).astype(np.int8)
    scale, ids = rng.random((3, 2, 4)), np.array([[[0, 2], [1, 2]]], np.int32)
    x = normal(1, 2, 10 if name == "mul_mat_id_per_expert_x" else 5)
    rows = x.reshape(1, 2, -1, 5).astype(np.float64) * np.ones((1, 1, 2, 1))
    tiles = codes.astype(np.float64)[ids]
    expected = np.einsum("bski,bsktiv->bsktv", rows, tiles)
    for kind in (np.float32, ml_dtypes.bfloat16, np.float16):
        found = getattr(moe, f"{name}_packed")(codes.astype(kind), ids, x)
        np.testing.assert_allclose(found, expected.reshape(1, 2, 16), **EXACT)
    found = getattr(moe, f"{name}_packed_i8")(codes, scale, ids, x)
    np.testing.assert_allclose(
        found, (expected * scale[ids]).reshape(1, 2, 16), **EXACT
    )


@pytest.mark.parametrize("expert", [-1, 3])
def test_an_expert_that_is_not_there_is_refused(expert: int) -> None:
    ids = np.array([[[0, expert]]], np.int32)
    with pytest.raises(ValueError, match="ids must be below n_expert = 3"):
        moe.mul_mat_id(normal(3, 8, 5), ids, normal(1, 1, 5))


def test_a_gate_of_nothing_is_half_open() -> None:
    x = normal(2, 3, 5)
    shut, half, wide = (np.full((2, 3, 1), g, np.float32) for g in (-800, 0, 800))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(moe.sigmoid_gate(x, shut), 0 * x)
    np.testing.assert_array_equal(moe.sigmoid_gate(x, half), x.astype(np.float64) / 2)
    np.testing.assert_array_equal(moe.sigmoid_gate(x, wide), x)


def test_layer_norm_without_a_bias_has_no_mean() -> None:
    # 1, 3 and 8 are 3, 1 and 4 from their mean; the mean of the squares is 26 / 3.
    x = np.array([[[1, 3, 8]]], np.float32)
    weight = np.array([1, 2, 3], np.float32)
    y = normalization.layer_norm_no_bias(x, weight, 1 / 3)
    np.testing.assert_allclose(y, [[[-1, -2 / 3, 4]]], **EXACT)


def test_scale_is_a_product() -> None:
    x = normal(1, 2, 3)
    np.testing.assert_array_equal(elementwise.scale(x, 2.0), x.astype(np.float64) + x)
