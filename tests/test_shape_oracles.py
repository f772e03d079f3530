"""Test the oracles of shapes, indices and casts against second sources.

Loops over single numbers, and other functions of NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from oracles import elementwise, indexing, shape


def normal(*sizes: int, seed: int = 0) -> np.ndarray:
    """Return normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(sizes, dtype=np.float32)


def by_loop(sizes: tuple[int, ...], value: Callable[..., Any]) -> np.ndarray:
    """Return the array whose every number is what a formula says of its place."""
    found = np.empty(sizes)
    for place in itertools.product(*map(range, sizes)):
        found[place] = value(*place)
    return found


X = normal(2, 3, 12)
HEADS = normal(2, 3, 4, 5, seed=1)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (shape.transpose(X), by_loop((2, 12, 3), lambda b, j, s: X[b, s, j])),
        (
            shape.permute(HEADS),
            by_loop((2, 4, 3, 5), lambda b, h, s, d: HEADS[b, s, h, d]),
        ),
        (
            shape.view(X, 4),
            by_loop((2, 3, 4, 3), lambda b, s, h, d: X[b, s, h * 3 + d]),
        ),
        (
            shape.reshape(HEADS),
            by_loop((2, 3, 20), lambda b, s, j: HEADS[b, s, j // 5, j % 5]),
        ),
        (
            shape.repeat(HEADS, 12),
            by_loop((2, 3, 12, 5), lambda b, s, h, d: HEADS[b, s, h // 3, d]),
        ),
        (
            shape.slice_columns(X, 5, 4),
            by_loop((2, 3, 4), lambda b, s, j: X[b, s, 5 + j]),
        ),
        (shape.slice_leading(X[0], 2), by_loop((2, 12), lambda i, j: X[0, i, j])),
        (
            shape.pad(X, 0.5, 15),
            by_loop((2, 3, 15), lambda b, s, j: X[b, s, j] if j < 12 else 0.5),
        ),
        (
            shape.concat(X, X[..., 5:], 19),
            by_loop((2, 3, 19), lambda b, s, j: X[b, s, j if j < 12 else j - 7]),
        ),
        (
            shape.stack(X, 2 * X),
            by_loop((2, 2, 3, 12), lambda n, b, s, j: X[b, s, j] * (1 + n)),
        ),
    ],
    ids=[
        "transpose",
        "permute",
        "view",
        "reshape",
        "repeat",
        "slice",
        "slice_leading",
        "pad",
        "concat",
        "stack",
    ],
)
def test_every_number_is_where_the_formula_says(
    found: np.ndarray, expected: np.ndarray
) -> None:
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, expected)


def test_split_and_unstack_undo_concat_and_stack() -> None:
    left, right = normal(2, 3, 5, seed=2), normal(2, 3, 5, seed=3)
    for apart in (
        shape.split(shape.concat(left, right, 10)),
        shape.split_at(shape.concat(left, right, 10), 5, 5),
        shape.unstack(shape.stack(left, right)),
    ):
        np.testing.assert_array_equal(apart[0], left)
        np.testing.assert_array_equal(apart[1], right)


@pytest.mark.parametrize(
    "same", [shape.contiguous, shape.clone, lambda x: shape.copy(x, 0 * x)]
)
def test_the_same_numbers_come_back(same: Callable[[Any], Any]) -> None:
    np.testing.assert_array_equal(same(X), X)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: shape.concat(X, X[:, :1], 24), "shapes differ"),
        (lambda: shape.concat(X, X, 23), "expected n_embd of 24, found 23"),
        (lambda: shape.split_at(X, 5, 6), "expected 12 columns, found 5 and 6"),
        (lambda: shape.copy(X, X[:1]), "shapes differ"),
        (lambda: shape.repeat(HEADS, 6), "n_head must be a multiple of 4, found 6"),
        (lambda: shape.slice_columns(X, 9, 4), "columns must be below 12, found 9 to"),
        (lambda: shape.slice_leading(X[0], 4), "n_keep must be at most 3, found 4"),
        (lambda: indexing.where(np.ones((1, 3, 12), np.int32), X, X), "shapes differ"),
        (
            lambda: indexing.masked_scatter(X, np.ones((2, 3), np.int32), X[0, :2]),
            "expected 6 rows or more, found 2",
        ),
        (
            lambda: indexing.masked_scatter(X, np.zeros((2, 3), np.int32), X[0, :0]),
            "expected a row or more, found none",
        ),
        (
            lambda: indexing.scatter(X, np.ones((2, 2), np.int32), X[:, :2]),
            "positions of sequence 0 must differ",
        ),
        (
            lambda: elementwise.cast_f32_to_i32(np.full((1, 1, 1), 2.0**31)),
            "below 2\\^31",
        ),
    ],
    ids=[
        "concat",
        "concat widths",
        "split_at",
        "copy",
        "repeat",
        "slice",
        "slice_leading",
        "where",
        "masked_scatter",
        "masked_scatter of nothing",
        "scatter",
        "cast",
    ],
)
def test_what_a_component_may_not_be_given_is_refused(
    wrong: Callable[[], object], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        wrong()


@pytest.mark.parametrize("place", [-1, 3])
def test_a_position_that_is_none_is_refused(place: int) -> None:
    positions = np.full((2, 1), place, np.int32)
    calls: tuple[Callable[[], object], ...] = (
        lambda: indexing.gather(X, positions),
        lambda: indexing.scatter(X, positions, X[:, :1]),
    )
    for wrong in calls:
        with pytest.raises(IndexError, match=rf"in \[0, 3\), found {place}"):
            wrong()


def test_gather_agrees_with_take_along_axis_and_scatter_undoes_it() -> None:
    x = normal(3, 7, 4)
    rng = np.random.default_rng(1)
    positions = np.stack([rng.permutation(7)[:5] for _ in range(3)]).astype(np.int32)
    rows = indexing.gather(x, positions)
    expected = np.take_along_axis(x, positions[..., None].astype(np.int64), axis=1)
    np.testing.assert_array_equal(rows, expected)
    blank = indexing.scatter(x, positions, np.zeros_like(rows))
    assert np.count_nonzero(blank) == 3 * 2 * 4
    np.testing.assert_array_equal(indexing.scatter(blank, positions, rows), x)


def test_where_takes_a_for_every_number_but_zero_and_lets_no_nan_through() -> None:
    condition = np.array([[[0, 1, -7, 0]]], np.int32)
    a = np.array([[[np.nan, 2, 3, np.inf]]], np.float32)
    b = np.array([[[5, np.nan, np.nan, 8]]], np.float32)
    assert indexing.where(condition, a, b).tolist() == [[[5, 2, 3, 8]]]


def test_masked_scatter_agrees_with_an_assignment_by_mask() -> None:
    x, rows = normal(3, 5, 4), normal(15, 4, seed=1)
    mask = np.random.default_rng(2).integers(0, 2, (3, 5)).astype(np.int32)
    expected = x.copy()
    expected[mask != 0] = rows[: np.count_nonzero(mask)]
    found = indexing.masked_scatter(x, mask, rows)
    np.testing.assert_array_equal(found, expected)
    assert 0 < np.count_nonzero(mask) < 15


def test_causal_mask_leaves_a_triangle_and_a_window_a_band() -> None:
    score = normal(1, 2, 4, 6)
    start = np.array([2], np.int32)
    plain = indexing.causal_mask(score, start, 99)
    triangle = np.tril(np.ones((4, 6)), 2) != 0
    band = triangle & (np.triu(np.ones((4, 6)), 1) != 0)
    for found, seen in (
        (plain, triangle),
        (indexing.causal_mask(score, start, 2), band),
    ):
        np.testing.assert_array_equal(found[0, :, seen], score[0, :, seen])
        assert (found[0, :, ~seen] == np.float32(-1e30)).all()


def test_each_sequence_is_masked_from_its_own_start() -> None:
    score = np.zeros((2, 1, 1, 4))
    seen = indexing.causal_mask(score, np.array([0, 2], np.int32), 9) == 0
    assert seen[:, 0, 0].tolist() == [[True, False, False, False], [True] * 3 + [False]]


def test_casts_agree_with_numpys() -> None:
    ties = [2**24 + 1, 2**24 + 3, -(2**25) - 2, -(2**25) - 6]
    whole = np.array([[[-7, 0, *ties, 2**31 - 1, -(2**31)]]], np.int32)
    floats = elementwise.cast_i32_to_f32(whole)
    np.testing.assert_array_equal(floats, whole.astype(np.float32).astype(np.float64))
    numbers = np.array([[[-2.9, -0.5, 0.5, 2.9, 1e9]]], np.float32)
    assert elementwise.cast_f32_to_i32(numbers).tolist() == [[[-2, 0, 0, 2, 10**9]]]


def test_bfloat16_is_the_nearest_of_two_neighbours() -> None:
    # 1 + 2^-8 lies between 1 and 1 + 2^-7, 1 + 3 * 2^-8 between the next two.
    x = np.array([1 + 2**-8, 1 + 3 * 2**-8, -3.14159, 2.0**-133 * 1.5, 3.4e38])
    found = elementwise.cast_f32_to_bf16(x.reshape(1, 1, -1)).ravel().tolist()
    assert found == [1, 1 + 2**-6, -3.140625, 2.0**-132, np.inf]
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((2, 3, 4), dtype=np.float32) * np.float32(1e-38)
    narrow = numbers.astype(ml_dtypes.bfloat16)
    expected = elementwise.cast_bf16_to_f32(narrow)
    np.testing.assert_array_equal(elementwise.cast_f32_to_bf16(numbers), expected)
