"""Test how a pool assigns blocks, and what it rejects before a module runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.bundles.cache_blocks import BlockPool, check_indices
from ingot.bundles.generator import ctx_for
from ingot.bundles.reader import Bundle
from ingot.checks.oracle_decoder import Given, decoder_inputs
from ingot.errors import IngotError
from ingot.model.graph import EntryPoint, Port
from ingot.model.manifest import read_manifest
from ingot.model.shapes import TensorType
from tests.project import ROOT


@pytest.fixture
def pool() -> BlockPool:
    """Five blocks of 4 positions for sequences, of up to 12 positions each."""
    return BlockPool(6, 4, 12)


def test_a_sequence_has_as_many_blocks_as_it_needs(pool: BlockPool) -> None:
    pool.hold({7: 4})
    pool.hold({8: 5})
    np.testing.assert_array_equal(pool.table((8, 7)), [[2, 3], [1, 0]])
    pool.hold({7: 5})
    np.testing.assert_array_equal(pool.table((7, 8)), [[1, 4], [2, 3]])
    assert pool.free_blocks == 1


def test_what_a_sequence_leaves_is_the_next_ones(pool: BlockPool) -> None:
    pool.hold({1: 8})
    pool.hold({2: 8})
    pool.free(1)
    pool.hold({3: 12})
    np.testing.assert_array_equal(pool.table((3, 2)), [[1, 2, 5], [3, 4, 0]])
    assert pool.free_blocks == 0


def test_a_sequence_that_does_not_fit_gets_no_block(pool: BlockPool) -> None:
    pool.hold({1: 12})
    pool.hold({2: 4})
    with pytest.raises(IngotError) as error:
        pool.hold({2: 12})
    assert str(error.value) == (
        "sequence 2: the pool is full; expected 2 free blocks, found 1\n"
        "  end a sequence, or make the pool larger"
    )
    assert pool.free_blocks == 1
    np.testing.assert_array_equal(pool.table((2,)), [[4]])


@pytest.mark.parametrize(
    ("what", "words"),
    ids=["length", "free", "table", "pool"],
    argvalues=[
        (
            lambda pool: pool.hold({1: 13}),
            "sequence 1: longer than the context; expected at most n_ctx = 12"
            " positions, found 13",
        ),
        (lambda pool: pool.free(1), "sequence 1: it has no blocks"),
        (lambda pool: pool.table((1,)), "sequence 1: it has no blocks"),
        (
            lambda _: BlockPool(1, 4, 12),
            "a pool needs 2 blocks or more, found 1",
        ),
    ],
)
def test_what_cannot_be_is_said(
    pool: BlockPool, what: Callable[[BlockPool], Any], words: str
) -> None:
    with pytest.raises(IngotError) as error:
        what(pool)
    assert str(error.value) == words


@pytest.mark.parametrize(
    ("table", "start", "seq", "words"),
    [
        ([[1, 6]], [0], 1, "a block is outside; expected 0 to 5, found 1 to 6"),
        ([[-1]], [0], 1, "a block is outside; expected 0 to 5, found -1 to -1"),
        ([[1]], [-1], 1, "a position is outside; expected 0 to 11, found -1 to -1"),
        ([[1]], [11], 2, "a position is outside; expected 0 to 11,"),
        ([[1, 2], [2, 0]], [0, 0], 1, "two sequences, or two positions of one,"),
    ],
)
def test_a_module_is_not_given_what_is_undefined(
    pool: BlockPool, table: Any, start: Any, seq: int, words: str
) -> None:
    with pytest.raises(IngotError, match=words):
        check_indices(pool, np.array(table), np.array(start), seq)


@pytest.fixture(scope="module")
def prefill() -> EntryPoint:
    """Of a model with blocks of 8 positions, at most 16 of them a sequence."""
    return read_manifest(ROOT / "models/toy-moe.yaml", ROOT).graph.entry_points[0]


def test_a_check_gives_each_sequence_blocks_of_its_own(prefill: EntryPoint) -> None:
    given = Given(((5, 6, 7), (8,)), (0, 4), ctx=9)
    *_, table, cache_k, _ = decoder_inputs(prefill, given, {})
    # As they lie where the blocks of one sequence are repeated for two.
    np.testing.assert_array_equal(table, [[2, 4], [3, 5]])
    assert cache_k.shape == (2, 6, 8, 32)


def test_a_bundle_holds_what_its_blocks_hold(
    prefill: EntryPoint, tmp_path: Path
) -> None:
    dims = {"n_block_seq": {"min": 1, "max": 16}}
    bundle = Bundle(tmp_path, {"dynamic_dims": dims}, (prefill,))
    assert bundle.limit("ctx") == 128
    assert [ctx_for(tokens, bundle) for tokens in (1, 33, 500)] == [32, 64, 128]
    dims["n_block_seq"]["min"] = 6
    assert [ctx_for(tokens, bundle) for tokens in (1, 33, 500)] == [48, 64, 128]


def test_caches_that_are_no_pools_have_no_blocks(prefill: EntryPoint) -> None:
    for shape in (("batch",), (2, "n_block", "seq"), (2, "n_block")):
        state = Port("state", TensorType(shape, "f32"), "cache", "state")
        assert replace(prefill, inputs=(state,)).block_size == 0
        assert replace(prefill, inputs=(state, *prefill.inputs)).block_size == 8


def test_the_block_of_nobody_is_in_many_places(pool: BlockPool) -> None:
    table, zeros = np.array([[1, 0, 0], [0, 0, 0]]), np.zeros(2, int)
    check_indices(pool, table, zeros, seq=3)
