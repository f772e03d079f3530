"""Test which positions of a value are padding, and that no comparison sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ingot.checks.cases import Case, entry_inputs
from ingot.checks.compare import Place, Row, compare
from ingot.checks.padding import Padding, padding_of, real_of
from ingot.model.graph import Graph
from ingot.model.manifest import read_manifest
from ingot.model.shapes import TensorType
from ingot.model.tolerance import Tolerance
from tests.project import ROOT

HIDDEN = TensorType(("batch", "seq", 2), "f32")
CACHE = TensorType((2, "batch", "ctx", 3), "f32")
POOL = TensorType((2, "n_block", 4, 3), "f32")
RAGGED = Padding(lengths=(3, 1), seq=3, start=(2, 0), table=((2, 1), (4, 3)))
TOLERANCE = Tolerance(1e-4, None, "targets/x.yaml:1")


def graph_of(model: str) -> Graph:
    return read_manifest(ROOT / f"models/{model}.yaml", ROOT).graph


def of(model: str, entry: str, case: Case) -> Padding | None:
    """The padding of a case of an entry point of a model."""
    graph = graph_of(model)
    found = next(item for item in graph.entry_points if item.name == entry)
    return padding_of(found, case, entry_inputs(graph, found, case))


def real(type_: TensorType, *shape: int, padding: Padding = RAGGED) -> Any:
    """Where a value of this type and shape is real."""
    return padding.real(type_, np.zeros(shape))


def test_tokens_behind_the_end_of_their_sequence_are_padding() -> None:
    assert real(HIDDEN, 2, 3, 2).tolist() == [
        [[True] * 2] * 3,
        [[True] * 2, [False] * 2, [False] * 2],
    ]
    # Whatever is between the two dims: the scores of heads, by query.
    scores = TensorType(("batch", 5, "seq", "seq"), "f32")
    found = real(scores, 2, 5, 3, 3)
    assert found[0].all()
    assert found[1, :, 0].all()
    assert not found[1, :, 1:].any()


def test_a_value_without_tokens_has_no_padding() -> None:
    for dims in (("batch", 384), ("batch", 1, 50), (7, 5)):
        assert RAGGED.real(TensorType(dims, "f32"), np.zeros((2, 1, 1))) is None
    assert real_of(None, HIDDEN, np.zeros((2, 3, 2))) is None


def test_a_cache_has_padding_only_where_the_padding_was_written() -> None:
    found = real(CACHE, 2, 2, 6, 3)
    assert found[:, 0].all()
    assert found[:, 1].all(axis=(0, 2)).tolist() == [True, False, False, *[True] * 3]


def test_blocks_of_a_cache_hold_padding_where_the_table_leads() -> None:
    found = real(POOL, 2, 5, 4, 3)
    # Sequence 1 begins in block 4: its rows 1 and 2 are of the padding.
    assert found.all(axis=(0, 3)).tolist() == [
        [False] * 4,  # of no sequence
        *[[True] * 4] * 3,
        [True, False, False, True],
    ]
    behind = replace(RAGGED, lengths=(3, 3), start=(6, 7))
    assert real(POOL, 2, 5, 4, 3, padding=behind)[:, 1:].all()


def test_an_entry_point_tells_of_padding_by_a_mask_or_by_last_tokens() -> None:
    case = Case(2, 5, (5, 2))
    assert of("all-minilm-l6-v2", "encode", case) == Padding((5, 2), 5)
    found = of("clm-60m", "prefill", replace(case, ctx=10))
    assert found is not None
    assert (found.lengths, found.start[0], found.table) == ((5, 2), 5, ())
    found = of("toy-moe", "prefill", replace(case, ctx=16))
    assert found is not None
    assert sorted(sum(found.table, ())) == [1, 2, 3, 4]
    # One token of each sequence; and a layer that knows of no sequences.
    assert of("clm-60m", "decode", Case(2, 1, (1, 1), ctx=6)) is None
    assert of("attention-block", "prefill", replace(case, ctx=16)) is None


def row(expected: Any, got: Any, lengths: tuple[int, ...]) -> Row:
    place = Place("block", "layer.1", "encode", (("batch", 1),), "y")
    expected, got = np.asarray(expected), np.asarray(got)
    padding = Padding(lengths, expected.shape[1])
    return compare(place, expected, got, TOLERANCE, padding.real(HIDDEN, expected))


@pytest.mark.parametrize("garbage", [9723.0, np.nan, np.inf])
def test_whatever_padding_holds_is_not_compared(garbage: float) -> None:
    expected = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]
    got = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [garbage, garbage]]]
    assert row(expected, got, (2, 1)).passed
    assert row(got, expected, (2, 1)).passed
    found = row(expected, got, (2, 2))
    assert (found.passed, found.worst[:2]) == (False, (1, 1))


def test_integers_are_exact_except_in_padding() -> None:
    expected = np.array([[[1, 2], [3, 4]]], np.int32)
    got = np.array([[[1, 2], [0, 0]]], np.int32)
    assert row(expected, got, (1,)).passed
    assert not row(expected, got, (2,)).passed


def test_the_cosine_is_that_of_real_vectors() -> None:
    place = Place("model", "oracle", "encode", (("batch", 1),), "y")
    expected = np.array([[[1.0, 0.0], [1.0, 0.0]]])
    got = np.array([[[1.0, 0.0], [0.0, 0.0]]])
    cosine = replace(TOLERANCE, min_cosine=0.999)
    places = real(HIDDEN, 1, 2, 2, padding=Padding((1,), 2))
    found = compare(place, expected, got, cosine, places)
    assert (found.passed, found.cosine) == (True, 1.0)
