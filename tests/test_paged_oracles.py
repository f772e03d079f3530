"""Test the oracles of paged caches, and of attention over them, a second way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracles.attention import attention_causal
from oracles.cache import kv_cache_update
from oracles.paged import (
    attention_paged,
    attention_paged_decode,
    paged_cache_gather,
    paged_cache_update,
)

# float64 keeps 15 to 16 digits; sums of a few hundred terms lose two of them.
EXACT: Any = {"rtol": 1e-13, "atol": 1e-13}
N_LAYER, BLOCK_SIZE, N_BLOCK, HEADS, HEADS_KV, HEAD_DIM = 2, 4, 12, 4, 2, 3
WIDTH_KV = HEADS_KV * HEAD_DIM
# Of two sequences, neither in order nor side by side.
TABLE = np.array([[7, 2, 9], [4, 11, 1]], np.int32)
START = np.array([3, 6], np.int32)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def pool(seed: int) -> np.ndarray:
    return normal(N_LAYER, N_BLOCK, BLOCK_SIZE, WIDTH_KV, seed=seed)


def contiguous(cache: np.ndarray) -> np.ndarray:
    """Return what the table lists as a cache of one row a sequence.

    Shapes: -> [n_layer, batch, n_block_seq*block_size, n_embd_kv].
    """
    layers = [paged_cache_gather(cache, TABLE, layer) for layer in range(N_LAYER)]
    return np.stack(layers).reshape(N_LAYER, len(TABLE), -1, WIDTH_KV)


def test_a_row_is_where_the_table_says() -> None:
    x = np.arange(2 * 5, dtype=np.float32).reshape(2, 5, 1) + 100
    cache = np.zeros((1, N_BLOCK, BLOCK_SIZE, 1), np.float32)
    y = paged_cache_update(cache, x, TABLE, START, 0)[0, :, :, 0]
    # Position 3 of the first sequence is the last of block 7, 4 begins block 2.
    assert [y[7, 3], *y[2]] == [100, 101, 102, 103, 104]
    # Positions 6 to 10 of the second: the end of block 11, then block 1.
    assert [*y[11, 2:], *y[1, :3]] == [105, 106, 107, 108, 109]
    assert np.count_nonzero(y) == 10


def test_a_paged_cache_is_a_contiguous_one_in_pieces() -> None:
    x, cache = normal(2, 5, WIDTH_KV), pool(1)
    paged = contiguous(paged_cache_update(cache, x, TABLE, START, 1))
    expected = kv_cache_update(contiguous(cache), x, START, 1)
    np.testing.assert_array_equal(paged, expected)


def test_what_no_table_lists_stays_as_it_is() -> None:
    x, cache = normal(2, 5, WIDTH_KV), pool(1)
    y = paged_cache_update(cache, x, TABLE, START, 1)
    others = [0, 3, 5, 6, 8, 10]
    np.testing.assert_array_equal(y[:, others], cache[:, others])
    np.testing.assert_array_equal(y[0], cache[0])


def test_rows_beyond_the_table_go_to_the_block_of_nobody() -> None:
    x, cache = normal(2, 5, WIDTH_KV), pool(1)
    y = paged_cache_update(cache, x, TABLE, np.array([10, 2], np.int32), 0)
    np.testing.assert_array_equal(y[0, 9, 2:], x[0, :2])
    np.testing.assert_array_equal(y[0, 0, :3], x[0, 2:])
    np.testing.assert_array_equal(y[0, 9, :2], cache[0, 9, :2])


@pytest.mark.parametrize("window", [1, 4, 100])
def test_attention_over_blocks_is_attention_over_a_contiguous_cache(
    window: int,
) -> None:
    q, keys, values = normal(2, 5, HEADS * HEAD_DIM), pool(1), pool(2)
    numbers = (1, window, 0.4)
    found = attention_paged(
        q, keys, values, TABLE, START, *numbers, 0.0, HEADS, HEADS_KV
    )
    expected = attention_causal(
        q, contiguous(keys), contiguous(values), START, *numbers, HEADS, HEADS_KV
    )
    np.testing.assert_allclose(found, expected, **EXACT)


def test_a_cap_of_one_query_and_two_keys_by_hand() -> None:
    # Scores 3 and -3 are capped to 2 tanh(1.5) and its opposite.
    q = np.array([[[3.0]]], np.float32)
    keys = np.array([[[[1.0], [-1.0]]]], np.float32)
    values = np.array([[[[1.0], [0.0]]]], np.float32)
    table, start = np.zeros((1, 1), np.int32), np.array([1], np.int32)
    found = attention_paged(q, keys, values, table, start, 0, 9, 1.0, 2.0, 1, 1)
    expected = 1 / (1 + np.exp(-4 * np.tanh(1.5)))
    np.testing.assert_allclose(found, [[[expected]]], **EXACT)


@pytest.mark.parametrize("cap", [0.0, 2.0])
@pytest.mark.parametrize("window", [1, 4, 100])
def test_sums_over_blocks_are_those_over_positions(window: int, cap: float) -> None:
    given = (normal(2, 1, HEADS * HEAD_DIM), pool(1), pool(2), TABLE, START)
    numbers = (1, window, 0.4, cap, HEADS, HEADS_KV)
    arguments: Any = (*given, *numbers)
    found = attention_paged_decode(*arguments)
    np.testing.assert_allclose(found, attention_paged(*arguments), **EXACT)


@pytest.mark.parametrize("seq", [1, 2])
def test_what_was_in_a_block_before_does_not_matter(seq: int) -> None:
    attention = attention_paged_decode if seq == 1 else attention_paged
    q, keys, values = normal(2, seq, HEADS * HEAD_DIM), pool(1), pool(2)
    given = (TABLE, START, 0, 100, 0.4, 0.0, HEADS, HEADS_KV)
    expected = attention(q, keys, values, *given)
    for cache in (keys, values):
        cache[1] = 1e30  # the other layer
        cache[:, [0, 3, 5, 6, 8, 10]] = 1e30  # blocks of others
        cache[0, 2, 1:] = 1e30  # behind the first sequence's position 4
        cache[0, 1] = 1e30  # behind the second's position 7
    np.testing.assert_array_equal(attention(q, keys, values, *given), expected)


@pytest.mark.parametrize(
    ("table", "layer", "words"),
    [
        ([[1, 12, 2]] * 2, 0, "blocks must be below n_block = 12, found 1 to 12"),
        ([[1, -1, 2]] * 2, 0, "blocks must be below n_block = 12, found -1 to 2"),
        (TABLE, 2, "layer must be below n_layer = 2, found 2"),
    ],
)
def test_what_a_pool_does_not_have_is_refused(
    table: Any, layer: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        paged_cache_gather(pool(1), np.array(table, np.int32), layer)
