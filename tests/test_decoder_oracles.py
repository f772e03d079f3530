"""Test the oracles of decoders' simple components against second sources."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest

from oracles import (
    activation,
    elementwise,
    embedding,
    linear,
    normalization,
    position,
    sequence,
)
from tests.domains.position import angles

# float64 keeps 15 to 16 digits; sums of a few hundred terms lose two of them.
EXACT: Any = {"rtol": 1e-13, "atol": 1e-13}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_rms_norm_of_a_hand_worked_row() -> None:
    # The mean of 1, 49 and 25 is 25: the root mean square is 5.
    x = np.array([[[1, -7, 5]]], dtype=np.float32)
    weight = np.array([5, 10, -1], dtype=np.float32)
    y = normalization.rms_norm(x, weight, 0.0)
    np.testing.assert_allclose(y, [[[1, -14, -1]]], **EXACT)


def test_rms_norm_adds_eps_to_the_mean_square() -> None:
    # 4 + 5 = 9, whose root is 3.
    x = np.array([[[2, 2]]], dtype=np.float32)
    y = normalization.rms_norm(x, np.ones(2, np.float32), 5.0)
    np.testing.assert_allclose(y, [[[2 / 3, 2 / 3]]], **EXACT)


def test_rms_norm_is_a_row_of_that_length_over_its_hypotenuse() -> None:
    x, weight = normal(2, 3, 8) * 5 + 2, normal(8, seed=1)
    y = normalization.rms_norm(x, weight, 0.0)
    for row, result in zip(x.reshape(-1, 8).tolist(), y.reshape(-1, 8), strict=True):
        unit = math.sqrt(8) * np.array(row) / math.hypot(*row)
        np.testing.assert_allclose(result, unit * weight, **EXACT)


def test_rms_norm_plus_one_of_nothing_learned_is_the_plain_norm() -> None:
    x = normal(2, 3, 8)
    np.testing.assert_allclose(
        normalization.rms_norm_plus_one(x, np.zeros(8, np.float32), 1e-6),
        normalization.rms_norm(x, np.ones(8, np.float32), 1e-6),
        **EXACT,
    )


def test_rms_norm_plus_one_adds_one_in_float64() -> None:
    # In float32, 1 + 2^-40 is 1.
    x, tiny = np.ones((1, 1, 1), np.float32), np.full(1, 2.0**-40, np.float32)
    y = normalization.rms_norm_plus_one(x, tiny, 0.0)
    assert y.item() == 1.0 + 2.0**-40


def test_rms_norm_heads_is_the_norm_of_each_head_by_itself() -> None:
    x, weight = normal(2, 3, 12), normal(4, seed=1)
    y = normalization.rms_norm_heads(x, weight, 1e-6, 3)
    for first in (0, 4, 8):
        head = slice(first, first + 4)
        expected = normalization.rms_norm(x[..., head], weight, 1e-6)
        np.testing.assert_allclose(y[..., head], expected, **EXACT)


def test_rms_norm_heads_refuses_a_weight_of_another_length() -> None:
    with pytest.raises(ValueError, match="expected 3 heads of 5, found 12 columns"):
        normalization.rms_norm_heads(normal(1, 2, 12), normal(5), 1e-6, 3)


def test_rope_of_a_quarter_turn_worked_by_hand() -> None:
    # Position 1 turns pair 0 by 90 degrees and pair 1 by 180.
    table = np.array([[1, 1, 0, 0], [0, -1, 1, 0]], dtype=np.float32)
    x = np.array([[[1, 2, 3, 4]]], dtype=np.float32)
    start = np.array([1], dtype=np.int32)
    assert position.rope(x, table, start, 1).tolist() == [[[-3, -2, 1, -4]]]
    y = position.rope_interleaved(x, table, start, 1)
    assert y.tolist() == [[[-2, 1, -3, -4]]]


@pytest.mark.parametrize("n_rot", [6, 4])
def test_rope_is_a_product_of_complex_numbers(n_rot: int) -> None:
    batch, seq, n_head, head_dim, half = 2, 5, 3, 6, n_rot // 2
    x, start = normal(batch, seq, n_head * head_dim), np.array([7, 0], np.int32)
    table = angles(20, n_rot).astype(np.float64)
    heads = x.reshape(batch, seq, n_head, head_dim).astype(np.float64)
    turn = (table[:, :half] + 1j * table[:, half:])[start[:, None] + np.arange(seq)]
    turn = turn[:, :, None]

    halves = heads.copy()
    product = (heads[..., :half] + 1j * heads[..., half:n_rot]) * turn
    halves[..., :half], halves[..., half:n_rot] = product.real, product.imag
    y = position.rope(x, table, start, n_head)
    np.testing.assert_allclose(y, halves.reshape(x.shape), **EXACT)

    sides = heads.copy()
    sides[..., :n_rot] = (
        (np.ascontiguousarray(heads[..., :n_rot]).view(np.complex128) * turn)
        .view(np.float64)
        .reshape(batch, seq, n_head, n_rot)
    )
    y = position.rope_interleaved(x, table, start, n_head)
    np.testing.assert_allclose(y, sides.reshape(x.shape), **EXACT)


@pytest.mark.parametrize("turn", [position.rope, position.rope_interleaved])
def test_products_of_turned_rows_know_only_their_distance(turn: Any) -> None:
    query, key = normal(1, 1, 8), normal(1, 1, 8, seed=1)
    table = np.concatenate(
        [
            function(np.arange(40)[:, None] * 10.0 ** -np.arange(4))
            for function in (np.cos, np.sin)
        ],
        axis=1,
    )

    def product(first: int, second: int) -> float:
        places = (np.array([place], np.int32) for place in (first, second))
        one, other = (
            turn(row, table, place, 1)
            for row, place in zip((query, key), places, strict=True)
        )
        return float((one * other).sum())

    assert product(3, 1) == pytest.approx(product(33, 31), rel=1e-12)
    assert product(3, 1) != pytest.approx(product(3, 2), rel=1e-3)


@pytest.mark.parametrize("start", [-1, 2])
def test_rope_refuses_a_position_outside_the_table(start: int) -> None:
    places = np.array([start], np.int32)
    with pytest.raises(IndexError):
        position.rope(normal(1, 3, 4), normal(4, 4), places, 1)


@pytest.mark.parametrize(
    ("gate", "expected"),
    [
        (0.0, 0.0),
        (math.log(3.0), 0.75 * math.log(3.0)),  # 1 / (1 + 1/3)
        (-math.log(3.0), -0.25 * math.log(3.0)),
        (-1000.0, 0.0),
        (1000.0, 1000.0),
    ],
)
def test_swiglu_at_points_worked_by_hand(gate: float, expected: float) -> None:
    y = activation.swiglu(np.full((1, 1, 1), gate), np.full((1, 1, 1), 2.0))
    assert y.item() == pytest.approx(2.0 * expected, rel=1e-14, abs=1e-14)


def test_swiglu_agrees_with_the_logistic_function_of_the_standard_library() -> None:
    gate, up = normal(2, 3, 5) * 4, normal(2, 3, 5, seed=1)
    logistic = [1.0 / (1.0 + math.exp(-value)) for value in gate.flat]
    expected = gate * np.reshape(logistic, gate.shape) * up
    np.testing.assert_allclose(activation.swiglu(gate, up), expected, **EXACT)


def test_geglu_tanh_is_the_logistic_form_of_its_paper() -> None:
    # 1 + tanh(u) = 2 / (1 + exp(-2u)).
    gate, up = normal(2, 3, 5) * 2, normal(2, 3, 5, seed=1)
    u = [math.sqrt(2 / math.pi) * (g + 0.044715 * g**3) for g in gate.ravel().tolist()]
    logistic = [1.0 / (1.0 + math.exp(-2.0 * value)) for value in u]
    expected = gate * np.reshape(logistic, gate.shape) * up
    np.testing.assert_allclose(activation.geglu_tanh(gate, up), expected, **EXACT)


def test_geglu_tanh_is_near_the_exact_gelu() -> None:
    gate = np.linspace(-6, 6, 200)[None, None]
    y = activation.geglu_tanh(gate, np.ones_like(gate))
    cdf = np.vectorize(statistics.NormalDist().cdf)
    error = np.abs(y - gate * cdf(gate)).max()
    # The published distance of the approximation.
    assert 1e-4 < error < 5e-4


def test_soft_cap_of_points_worked_by_hand() -> None:
    # tanh(log 2) = (2 - 1/2) / (2 + 1/2) = 3/5.
    x = np.array([[[0, 10 * math.log(2), -10 * math.log(2), 1e9]]])
    y = elementwise.soft_cap(x, 10.0)
    np.testing.assert_allclose(y, [[[0, 6, -6, 10]]], **EXACT)


def test_soft_cap_hardly_changes_what_is_small() -> None:
    x = normal(1, 2, 5) * np.float32(1e-3)
    y = elementwise.soft_cap(x, 30.0)
    # The next term of tanh's series: x^3 / (3 * cap^2).
    expected = x - x.astype(np.float64) ** 3 / (3 * 30.0**2)
    np.testing.assert_allclose(y, expected, rtol=1e-12, atol=0)


def test_embedding_lookup_scaled_takes_the_hand_picked_rows() -> None:
    weight = np.array([[1, 2], [3, 4], [5, 6]], dtype=np.float32)
    ids = np.array([[2, 0]], dtype=np.int32)
    y = embedding.embedding_lookup_scaled(weight, ids, 10.0)
    assert y.tolist() == [[[50, 60], [10, 20]]]


def test_last_position_takes_the_hand_picked_rows() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    last = np.array([2, 0], dtype=np.int32)
    assert sequence.last_position(x, last).tolist() == [[[4, 5]], [[6, 7]]]


def test_last_position_is_a_product_with_one_hot_rows() -> None:
    x, last = normal(3, 5, 4), np.array([4, 0, 2], dtype=np.int32)
    one_hot = (last[:, None] == np.arange(5)).astype(np.float64)[:, None]
    np.testing.assert_array_equal(sequence.last_position(x, last), one_hot @ x)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_last_position_refuses_an_index_outside_the_sequence(wrong: int) -> None:
    with pytest.raises(IndexError):
        sequence.last_position(normal(2, 3, 2), np.array([0, wrong], np.int32))


def test_linear_agrees_with_correctly_rounded_sums() -> None:
    x, weight = normal(2, 3, 9), normal(4, 9, seed=1)
    y = linear.linear(x, weight)
    for b, s, o in np.ndindex(y.shape):
        terms = x[b, s].astype(np.float64) * weight[o].astype(np.float64)
        exact = math.fsum(terms.tolist())
        assert y[b, s, o] == pytest.approx(exact, rel=1e-13, abs=1e-13)
