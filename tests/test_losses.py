"""Test how much float32 is found to lose, and what a comparison allows for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot.checks.compare import Place, Row, compare
from ingot.checks.float32_oracle import in_float32, lost, n_sample, side_by_side
from ingot.checks.losses import SMALLEST, ULP, loss_scale
from ingot.model.shapes import TensorType
from ingot.model.tolerance import Tolerance
from oracles import attention, linear, moe, normalization, packed, paged

TIMES = Tolerance.losses(10, "10 times")
HIDDEN = TensorType(("batch", "seq", 3), "f32")
RNG = np.random.default_rng(3)


def f32(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def both(oracle: Any, **operands: Any) -> tuple[Any, Any]:
    """Return what an oracle says in float64 and in float32."""
    (narrowed,) = in_float32({"it": oracle}).values()
    return oracle(**operands), narrowed(**operands)


def row(expected: Any, got: Any, loss: Any, real: Any = None) -> Row:
    place = Place("block", "layer.1", "encode", (("batch", 1),), "y")
    return compare(place, np.array(expected), np.array(got), TIMES, real, loss)


@pytest.mark.parametrize(
    ("oracle", "operands"),
    [
        (linear.linear, {"x": f32(1, 9, 64), "weight": f32(32, 64)}),
        (packed.linear_packed, {"x": f32(1, 9, 64), "weight": f32(4, 64, 8)}),
        (normalization.rms_norm, {"x": f32(1, 9, 64), "weight": f32(64), "eps": 1e-5}),
        (
            attention.attention_causal,
            {
                "q": f32(1, 5, 16),
                "cache_k": f32(1, 1, 5, 16),
                "cache_v": f32(1, 1, 5, 16),
                "start": np.zeros(1, np.int32),
                **{"layer": 0, "window": 9, "scale": 0.25, "n_head": 2, "n_head_kv": 2},
            },
        ),
        (
            paged.attention_paged_decode,
            {
                "q": f32(1, 1, 16),
                "keys": f32(1, 3, 4, 16),
                "values": f32(1, 3, 4, 16),
                "block_table": np.array([[2, 1]], np.int32),
                "start": np.array([6], np.int32),
                **{"layer": 0, "window": 9, "scale": 0.25, "cap": 0.0},
                **{"n_head": 2, "n_head_kv": 2},
            },
        ),
        (moe.renormalize, {"share": np.abs(f32(1, 9, 2))}),
    ],
    ids=lambda item: getattr(item, "__name__", ""),
)
def test_an_oracle_in_float32_loses_a_few_of_its_digits(
    oracle: Any, operands: Any
) -> None:
    wide, narrow = both(oracle, **operands)
    assert (wide.dtype, narrow.dtype) == (np.float64, np.float32)
    assert type(narrow) is np.ndarray
    error = np.abs(wide - narrow).max() / np.abs(wide).max()
    assert 0.1 * ULP < error < 100 * ULP
    again = both(oracle, **operands)[1]
    np.testing.assert_array_equal(narrow, again)


def test_what_is_only_moved_loses_nothing() -> None:
    ids = np.array([[3, 1]], np.int32)
    wide, narrow = both(
        packed.embedding_lookup_packed, weight=f32(2, 5, 8), ids=ids, scale=1.0
    )
    np.testing.assert_array_equal(wide, narrow)
    experts, _ = both(moe.expert_router, logits=f32(1, 2, 4), n_expert_used=2)[1]
    assert experts.dtype == np.int32


def test_sums_add_one_number_after_the_other() -> None:
    # Pairs would add the small ones first: 1 + 64 * 2^-24 is not 1.
    x = np.array([[[1.0, *[ULP] * 64]]])
    _, narrow = both(linear_sum, x=x)
    assert abs(narrow.item() - 1.0) <= 4 * ULP


def linear_sum(x: Any) -> Any:
    return x.astype(np.float64).sum(axis=-1)


def test_another_order_of_adding_loses_as_much_where_terms_cancel() -> None:
    for seed in range(50):
        rng = np.random.default_rng(seed)
        x, weight = (rng.normal(size=(1, 1, 64)).astype(np.float32) for _ in range(2))
        # The sum of 64 products is as good as 0.
        weight[..., -1] = -(x[..., :-1] * weight[..., :-1]).sum() / x[..., -1]
        several = side_by_side([(HIDDEN, x)], 4)
        wide = linear.linear(x, weight[0])
        (narrowed,) = in_float32({"it": linear.linear}).values()
        loss = lost(HIDDEN, wide, narrowed(x=several[0], weight=weight[0]), 4)
        limit = 32 * loss_scale(wide, loss, None)
        products = (x * weight).ravel()
        for order in (products, products[::-1], rng.permutation(products)):
            assert abs(np.add.accumulate(order)[-1] - wide.item()) <= limit


def test_a_case_of_few_tokens_runs_side_by_side_with_itself() -> None:
    assert n_sample((("batch", 3), ("seq", 14), ("ctx", 19))) == 4
    assert n_sample((("batch", 1), ("seq", 640))) == 1
    pool = TensorType((1, "n_block", 2, 3), "f32")
    table = TensorType(("batch", "n_block_seq"), "i32")
    cache = TensorType((7, "batch", "ctx", 3), "f32")
    start = TensorType(("batch",), "i32")
    values = [
        (HIDDEN, f32(2, 4, 3)),
        (pool, f32(1, 5, 2, 3)),
        (table, np.array([[1, 2], [3, 4]])),
        (cache, f32(7, 2, 6, 3)),
        (start, np.array([0, 1])),
        (TensorType((8, 3), "f32"), f32(8, 3)),
    ]
    made = side_by_side(values, 2)
    assert [item.shape for item in made] == [
        (4, 4, 3),
        (1, 10, 2, 3),
        (4, 2),
        (7, 4, 6, 3),
        (4,),
        (8, 3),
    ]
    assert made[2].tolist() == [[1, 2], [3, 4], [6, 7], [8, 9]]
    assert made[4].tolist() == [0, 1, 0, 1]


def test_the_loss_of_a_number_is_the_largest_of_its_samples() -> None:
    wide = np.zeros((1, 1, 3))
    narrow = np.array([[[1, 0, 0]], [[-2, 0, 3]]], np.float32)
    assert lost(HIDDEN, wide, narrow, 2).tolist() == [[[2, 0, 3]]]


def at(row: int, column: int, error: float) -> Any:
    found = np.zeros((3, 16))
    found[row, column] = error
    return found


def test_each_row_is_judged_by_its_own_loss() -> None:
    # A massive activation in one row: the others are not allowed for it.
    expected, loss = np.ones((3, 16)), np.zeros((3, 16))
    expected[0, 0], expected[1:, 1], loss[:, 0] = 9723.0, 2.0, (1e-3, 1e-7, 1e-7)
    assert row(expected, expected + 9.9 * loss, loss).passed
    found = row(expected, expected + at(1, 1, 2e-6), loss)
    assert (found.passed, found.worst) == (False, (1, 1))
    # Of the usual row, 1e-7 of 2 is less than half a digit of float32.
    assert found.tolerance == pytest.approx(10 * 2 * ULP)
    assert found.share == pytest.approx(2e-6 / found.tolerance)
    assert row(expected, expected + at(0, 1, 9e-3), loss).passed


def test_a_row_that_is_right_by_chance_may_differ_as_a_usual_one() -> None:
    loss = np.array([[1e-6] * 16, [0.0] * 16, [1e-6] * 16])
    scale = loss_scale(np.ones((3, 16)), loss, None)
    assert scale.ravel() == pytest.approx([1e-6] * 3)
    # Half a digit at least, and of zeros as much as is no normal number.
    four = np.full((1, 16), 4.0)
    assert loss_scale(four, 0 * four, None) == pytest.approx(4 * ULP)
    assert loss_scale(0 * four, 0 * four, None).item() == SMALLEST


def test_rows_of_few_numbers_are_judged_together() -> None:
    # One of them is right by chance, and is so small that no share of it helps.
    expected, loss = np.array([[1.0], [1e-3], [-1.0]]), np.array([[1e-6], [0], [2e-6]])
    scale = loss_scale(expected, loss, None)
    assert scale.shape == (1, 1)
    assert scale.item() == pytest.approx(2e-6)
    assert loss_scale(np.ones((2, 8, 2)), np.ones((2, 8, 2)), None).shape == (2, 1, 1)


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_what_overflows_in_float32_allows_nothing(loss: float) -> None:
    assert not row([[1.0, 2.0]], [[1.0, 2.1]], np.array([[loss, 0.0]])).passed


def test_the_loss_in_padding_allows_nothing() -> None:
    expected = np.array([[[1.0, 1, 1], [1, 1, 1]]])
    loss = np.array([[[0.0, 0, 0], [5, 5, 5]]])
    real = np.array([[[True] * 3, [False] * 3]])
    assert not row(expected, expected + 1e-3, loss, real).passed
