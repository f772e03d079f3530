from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ingot.checks.compare import (
    Place,
    Row,
    compare,
    explain,
    row_json,
    table,
)
from ingot.errors import IngotError
from ingot.model.tolerance import Tolerance

TOLERANCE = Tolerance(1e-4, None, "targets/aarch64.yaml:12")


def row(expected: Any, got: Any, tolerance: Tolerance = TOLERANCE) -> Row:
    place = Place("block", "layer.1", "encode", (("batch", 1),), "y")
    return compare(place, expected, got, tolerance)


def test_a_row_names_the_worst_value() -> None:
    found = row([[1.0, -1.93021]], np.array([[1.0, -1.92877]], np.float32))
    assert found.worst == (0, 1)
    assert found.max_abs_error == pytest.approx(1.44e-3, rel=1e-3)
    assert (found.expected, found.passed) == (-1.93021, False)


def test_an_error_of_just_the_tolerance_passes() -> None:
    assert row([0.0], [1e-4]).passed
    assert not row([0.0], [1.0001e-4]).passed


def test_an_error_may_be_judged_by_the_range_of_what_is_expected() -> None:
    share = replace(TOLERANCE, of_range=True)
    found = row([-10.0, 30.0], [-10.0, 30.003], share)
    assert found.tolerance == pytest.approx(4e-3)
    assert found.passed
    assert not row([-10.0, 30.0], [-10.0, 30.005], share).passed
    # If all values are equal, the size counts, because the range is zero.
    assert row([5.0, 5.0], [5.0, 5.0004], share).passed
    assert not row([5.0, 5.0], [5.0, 5.0006], share).passed
    assert not row([0.0, 0.0], [0.0, 1e-9], share).passed


@pytest.mark.parametrize("element", [np.int32, np.int64, np.bool_])
def test_integers_are_exact_whatever_the_tolerance(element: Any) -> None:
    loose = Tolerance(10.0, None, "targets/x.yaml:1", of_range=True)
    assert row([0, 1], np.array([0, 1], element), loose).passed
    found = row([0, 1], np.array([1, 1], element), loose)
    assert (found.passed, found.tolerance) == (False, 0.0)
    assert found.tolerance_source == "integers are exact"


def test_a_number_may_be_judged_among_others() -> None:
    share = replace(TOLERANCE, of_range=True)
    few = np.array([0.001])
    assert share.among(np.array([-1.0, 3.0])).limit(few) == pytest.approx(4e-4)
    assert TOLERANCE.among(np.array([-1.0, 3.0])).limit(few) == 1e-4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_fails_wherever_it_is(value: float) -> None:
    for expected, got in (([1.0, 1.0], [1.0, value]), ([1.0, value], [1.0, value])):
        found = row(expected, got)
        assert not found.passed
        assert found.worst == (1,)
        assert found.max_abs_error == np.inf


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(IngotError) as caught:
        row(np.zeros((1, 3)), np.zeros((3, 1)))
    assert str(caught.value) == (
        "block layer.1: y has the wrong shape; expected [1, 3], got [3, 1]"
    )


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(IngotError):
        row(np.zeros((0, 3)), np.zeros((0, 3)))


def test_a_cosine_below_the_least_fails_alone() -> None:
    loose = Tolerance(10.0, 0.99999, "targets/x.yaml:1")
    assert row([[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]], loose).passed
    found = row([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.1, 1.0]], loose)
    assert not found.passed
    assert found.cosine == pytest.approx(0.995037)


@pytest.mark.parametrize("vector", [[0.0, 0.0], [np.nan, 1.0]])
def test_a_vector_without_a_direction_fails(vector: list[float]) -> None:
    loose = Tolerance(10.0, 0.5, "targets/x.yaml:1")
    assert not row([[1.0, 0.0]], [vector], loose).passed


def test_a_report_is_json_whatever_the_values_are() -> None:
    text = json.dumps(row_json(row([1.0], [np.nan])), allow_nan=False)
    assert json.loads(text)["got"] == "nan"
    assert json.loads(text)["max_abs_error"] == "inf"


def test_a_report_does_not_depend_on_the_last_digits_of_the_oracle() -> None:
    first, second = (
        row_json(row([x], np.array([0.3000001], np.float32)))
        for x in (0.3, 0.3 + 5e-17)
    )
    assert first == second


def test_the_error_names_the_worst_value_and_the_first_wrong_block() -> None:
    right = row([0.0], [0.0])
    wrong = row([[0.0, -1.93021]], [[0.0, -1.92877]])
    later = replace(wrong, place=replace(wrong.place, name="layer.2"))
    assert explain("check toy@aarch64", (right, wrong, later), {}) == (
        "check toy@aarch64 encode: y differs from the oracle\n"
        "  worst at [0, 1]: expected -1.93021, got -1.92877, "
        "error 1.4e-03 > 1.0e-04 (targets/aarch64.yaml:12)\n"
        "  in block layer.1 (batch 1)\n"
        "  first wrong block: layer.1\n"
        "  2 of 3 comparisons failed"
    )


def test_a_wrong_component_names_the_first_block_that_calls_it() -> None:
    wrong = row([0.0], [1.0])
    place = replace(wrong.place, level="component", name="linear__n_3")
    wrong = replace(wrong, place=place)
    text = explain("check toy@x", (wrong,), {"linear__n_3": "layer.0 (node ffn_up)"})
    assert "first wrong block: layer.0 (node ffn_up)" in text


def test_a_table_has_one_line_per_level_and_one_per_failure() -> None:
    there = replace(TOLERANCE, source="targets/x.yaml:12")
    rows = (row([0.0], [1e-6]), row([0.0], [1.0], there))
    assert table(rows).splitlines() == [
        "level        rows  failed  worst error    limit   share",
        "block           2       1      1.0e+00  1.0e-04  1000000% (targets/x.yaml:12)",
        "  failed: block layer.1 (batch 1): 1.0e+00",
    ]
