"""Test that components touch only their own memory, and read what is defined.

The batch rejects such calls (tests/test_blocks.py), and so do the oracles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.model.component import read_component
from tests.component_cases import ROOT
from tests.component_runs import FLAGS, Forward, loaded, merged, oracle_of, run_tool

COMPONENTS = (
    "attention/attention_bidirectional",
    "attention/attention_paged",
    "attention/attention_paged_decode",
    "cache/kv_cache_update",
    "cache/paged_cache_gather",
    "cache/paged_cache_update",
)
N_LAYER, N_BLOCK, BLOCK_SIZE, WIDTH = 2, 5, 3, 4
# Of two sequences, the first has blocks of the pool.
WRONG_TABLES = ([[1, 2], [3, N_BLOCK]], [[1, 2], [-7, 3]], [[1, 2], [2**31 - 1, 3]])


@pytest.fixture(scope="module")
def forward(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("undefined")
    stems = {item.split("/")[1]: item for item in COMPONENTS}
    texts = {
        stem: (ROOT / f"components/{item}.mlir").read_text("utf-8")
        for stem, item in stems.items()
    }
    source = merged(texts, folder / "all.mlir")
    run_tool("iree-compile", source, "-o", folder / "all.vmfb", *FLAGS)
    function = loaded(Path(folder / "all.vmfb"))

    def found(stem: str) -> Forward:
        return function(f"{stem}.forward")

    return found


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(("start", "last"), [(6, 7), (100, 7), (-2, 0), (-(2**30), 0)])
def test_rows_behind_a_cache_are_lost_at_its_end(
    start: int, last: int, forward: Any
) -> None:
    cache, x = normal(N_LAYER, 2, 8, WIDTH), normal(2, 3, WIDTH, seed=1)
    first = np.array([2, start], np.int32)
    y = forward("kv_cache_update")(cache, x, first, 1)
    np.testing.assert_array_equal(y[0], cache[0])
    np.testing.assert_array_equal(y[1, 0, 2:5], x[0])
    given = {tuple(row) for row in (*x[1], *cache[1, 1])}
    assert {tuple(row) for row in y[1, 1]} <= given
    untouched = np.ones(8, bool)
    untouched[[place for place in range(start, start + 3) if 0 <= place < 8]] = False
    untouched[last] = False
    np.testing.assert_array_equal(y[1, 1, untouched], cache[1, 1, untouched])


@pytest.mark.parametrize("table", WRONG_TABLES)
def test_a_block_outside_the_pool_writes_inside_it(
    table: list[list[int]], forward: Any
) -> None:
    pool, x = normal(N_LAYER, N_BLOCK, BLOCK_SIZE, WIDTH), normal(2, 3, WIDTH, seed=1)
    start = np.array([1, 2], np.int32)
    blocks = np.array(table, np.int32)
    y = forward("paged_cache_update")(pool, x, blocks, start, 1)
    assert y.shape == pool.shape
    np.testing.assert_array_equal(y[0], pool[0])
    np.testing.assert_array_equal(y[1, 1, 1:], x[0, :2])
    np.testing.assert_array_equal(y[1, 2, 0], x[0, 2])
    given = {tuple(row) for row in (*x.reshape(-1, WIDTH), *pool.reshape(-1, WIDTH))}
    assert {tuple(row) for row in y.reshape(-1, WIDTH)} <= given


@pytest.mark.parametrize("table", WRONG_TABLES)
def test_a_block_outside_the_pool_reads_inside_it(
    table: list[list[int]], forward: Any
) -> None:
    pool = normal(N_LAYER, N_BLOCK, BLOCK_SIZE, WIDTH)
    y = forward("paged_cache_gather")(pool, np.array(table, np.int32), 1)
    np.testing.assert_array_equal(y[0].reshape(2, BLOCK_SIZE, WIDTH), pool[1, [1, 2]])
    given = {tuple(row) for row in pool[1].reshape(-1, WIDTH)}
    assert {tuple(row) for row in y.reshape(-1, WIDTH)} <= given


@pytest.mark.parametrize("table", WRONG_TABLES)
@pytest.mark.parametrize(
    ("name", "seq"), [("attention_paged", 2), ("attention_paged_decode", 1)]
)
def test_a_block_outside_the_pool_is_no_other_sequence_s_loss(
    name: str, seq: int, table: list[list[int]], forward: Any
) -> None:
    pools = [normal(N_LAYER, N_BLOCK, BLOCK_SIZE, WIDTH, seed=n) for n in (0, 1)]
    q, start = normal(2, seq, WIDTH, seed=2), np.array([3, 3], np.int32)
    numbers = (1, 9, 0.5, 0.0, 2, 2)
    found = forward(name)(q, *pools, np.array(table, np.int32), start, *numbers)
    right = np.array([[1, 2], [3, 4]], np.int32)
    signature = read_component(f"attention/{name}", ROOT)
    expected = oracle_of(signature)(q, *pools, right, start, *numbers)
    np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=1e-5)
    assert np.isfinite(found).all()


def test_what_padding_holds_reaches_no_real_position(forward: Any) -> None:
    q, k, v = (normal(2, 7, 8, seed=seed) for seed in range(3))
    mask = np.array([[1, 1, 1, 0, 0, 0, 0], [0] * 7], np.int32)
    expected = forward("attention_bidirectional")(q, k, v, mask, 2)
    for array in (q, k, v):
        array[mask == 0] = np.resize([np.nan, np.inf, -np.inf], 8)
    y = forward("attention_bidirectional")(q, k, v, mask, 2)
    np.testing.assert_array_equal(y[0, :3], expected[0, :3])
