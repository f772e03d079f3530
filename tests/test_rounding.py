"""Test narrow formats against hand-worked numbers and another implementation."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from ingot.ablation.rounding import SCHEMES, bf16, e4m3, mxfp8, rounded

INF = math.inf


@pytest.mark.parametrize(
    ("given", "near"),
    [
        (1.00390625, 1.0),  # 1 + 2^-8, between 1 and 1 + 2^-7: 1 is even
        (-1.00390625, -1.0),
        (1.01171875, 1.015625),  # 1 + 3*2^-8: 1 + 2^-6 is even
        (1.00390626, 1.0078125),  # above the tie
        (1.0, 1.0),
        (0.0, 0.0),
        (2.0**-134, 0.0),  # half of the smallest number
        (3 * 2.0**-134, 2.0**-132),
        ((2 - 2.0**-7) * 2.0**127, (2 - 2.0**-7) * 2.0**127),  # the largest number
        ((2 - 2.0**-8) * 2.0**127, INF),  # its tie with 2^128
        (-1e39, -INF),
        (INF, INF),
    ],
)
def test_bf16_is_the_nearest_and_ties_are_even(given: float, near: float) -> None:
    assert bf16(np.array([given])).tolist() == [near]


def test_bf16_is_what_another_implementation_has() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 100_000, np.uint32)
    numbers = bits.view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = numbers.astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(bf16(numbers), expected)


def test_bf16_rounds_a_float64_once() -> None:
    # To f32 first, this is the tie, which goes down.
    assert bf16(np.array([1.00390625 + 2.0**-40])).tolist() == [1.0078125]


@pytest.mark.parametrize(
    ("given", "near"),
    [
        (448.0, 448.0),
        (449.0, 448.0),
        (464.0, 448.0),  # would be a tie with 480, which is not a number here
        (1e6, 448.0),
        (-1e6, -448.0),
        (1.0625, 1.0),  # between 1 and 1.125
        (1.1875, 1.25),  # between 1.125 and 1.25
        (2.0**-6, 2.0**-6),  # the smallest normal number
        (2.0**-9, 2.0**-9),  # the smallest number
        (2.0**-10, 0.0),
        (3 * 2.0**-10, 2.0**-8),
    ],
)
def test_e4m3_saturates_and_ties_are_even(given: float, near: float) -> None:
    assert e4m3(np.array([given])).tolist() == [near]


def test_e4m3_is_what_another_implementation_has() -> None:
    numbers = np.random.default_rng(1).normal(0, 30, 100_000).astype(np.float32)
    expected = numbers.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(e4m3(numbers), expected)


def block(*first: float, columns: int = 32) -> np.ndarray:
    """A row that begins with these numbers; the rest is zero."""
    row = np.zeros((1, columns), np.float32)
    row[0, : len(first)] = first
    return row


@pytest.mark.parametrize(
    ("given", "near"),
    [
        # The scale is 2^(0-8): 0.3 becomes 76.8, between 72 and 80.
        ((1.0, 0.3), (1.0, 80 / 256)),
        # 1.9 becomes 486.4, above 448.
        ((1.9, 0.0), (448 / 256, 0.0)),
        # The scale is 1.
        ((448.0, 2.0**-9, 2.0**-10), (448.0, 2.0**-9, 0.0)),
        # The scale stops at 2^-127: there the largest is 2, and 2^-140 nothing.
        ((2.0**-126, 2.0**-140), (2.0**-126, 0.0)),
        ((0.0, 0.0), (0.0, 0.0)),
        # 2^127 becomes 2^8 at the scale 2^119.
        ((2.0**127, 1.0), (2.0**127, 0.0)),
    ],
)
def test_mxfp8_scales_by_the_power_of_two_below_the_largest(
    given: tuple[float, ...], near: tuple[float, ...]
) -> None:
    assert mxfp8(block(*given))[0, : len(near)].tolist() == list(near)


def test_blocks_of_mxfp8_have_scales_of_their_own() -> None:
    row = block(448.0, 2.0**-12, columns=40)
    row[0, 32] = 2.0**-12
    result = mxfp8(row)
    assert result.shape == (1, 40)
    assert (result[0, 1], result[0, 32]) == (0.0, 2.0**-12)


@pytest.mark.parametrize("wrong", [math.nan, INF])
def test_a_block_of_mxfp8_without_a_scale_is_no_number(wrong: float) -> None:
    row = block(wrong, 1.0, columns=64)
    result = mxfp8(row)
    assert np.isnan(result[0, :32]).all()
    assert (result[0, 32:] == 0).all()


@pytest.mark.parametrize(
    ("scheme", "given", "near"),
    [
        ("i8", (127.0, 63.6, -0.4), (127.0, 64.0, 0.0)),
        ("i8_block32", (254.0, 3.2, 1.2), (254.0, 4.0, 2.0)),
        ("i4_block32", (-8.0, 3.4, 2.5), (-8.0, 3.0, 2.0)),
        ("q4_1", (15.0, 3.4, 2.6), (15.0, 3.0, 3.0)),
        ("q5_0", (-16.0, 3.4, 14.6), (-16.0, 3.0, 15.0)),
        ("f16", (1 + 2.0**-11, 70000.0), (1.0, INF)),
        ("bf16", (1.00390625,), (1.0,)),
    ],
)
def test_a_scheme_reads_back_what_it_can_hold(
    scheme: str, given: tuple[float, ...], near: tuple[float, ...]
) -> None:
    row = block(*given, columns=33)
    assert rounded(row, scheme)[0, : len(near)].tolist() == list(near)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_matrix_in_pieces_is_the_matrix(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(2).normal(size=(7, 48)).astype(np.float32)
    whole = rounded(rows, scheme)
    monkeypatch.setattr("ingot.ablation.rounding._CHUNK", 100)
    np.testing.assert_array_equal(rounded(rows, scheme), whole)
    assert whole.dtype == np.float32
