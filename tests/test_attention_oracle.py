"""Test the oracles of attention over caches against second sources."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from oracles.attention import (
    attention_bidirectional,
    attention_causal,
)
from oracles.cache import kv_cache_update

# float64 keeps 15 to 16 digits; sums of a few hundred terms lose two of them.
EXACT: Any = {"rtol": 1e-13, "atol": 1e-13}
# More than any number of positions here.
EVERYTHING = 1000


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Return standard normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def starts(*positions: int) -> np.ndarray:
    return np.array(positions, np.int32)


def in_sums(
    q: np.ndarray,
    cache_k: np.ndarray,
    cache_v: np.ndarray,
    start: np.ndarray,
    layer: int,
    window: int,
    scale: float,
    n_head: int,
    n_head_kv: int,
) -> np.ndarray:
    """Return the formula as sums over numbers, position by position."""
    head_dim = q.shape[2] // n_head
    y = np.zeros(q.shape)
    for b, s, h in np.ndindex(*q.shape[:2], n_head):
        p, first = start[b] + s, h * n_head_kv // n_head * head_dim
        near = [j for j in range(cache_k.shape[2]) if j <= p and p - j < window]
        weights = []
        for j in near:
            key = cache_k[layer, b, j, first : first + head_dim].tolist()
            query = q[b, s, h * head_dim : (h + 1) * head_dim].tolist()
            products = (a * c for a, c in zip(query, key, strict=True))
            weights.append(math.exp(scale * math.fsum(products)))
        for d in range(head_dim):
            values = cache_v[layer, b, near, first + d].tolist()
            parts = (w * v for w, v in zip(weights, values, strict=True))
            y[b, s, h * head_dim + d] = math.fsum(parts) / math.fsum(weights)
    return y


@pytest.mark.parametrize("window", [1, 3, EVERYTHING])
@pytest.mark.parametrize("heads", [(1, 1), (3, 1), (4, 2), (3, 3)])
def test_attention_causal_is_its_formula_in_sums(
    heads: tuple[int, int], window: int
) -> None:
    q = normal(2, 5, heads[0] * 4)
    cache_k, cache_v = (normal(2, 2, 11, heads[1] * 4, seed=i) for i in (1, 2))
    arguments = (q, cache_k, cache_v, starts(0, 6), 1, window, 0.5, *heads)
    np.testing.assert_allclose(
        attention_causal(*arguments), in_sums(*arguments), **EXACT
    )


def test_attention_causal_of_a_hand_worked_case() -> None:
    # Scores 0 and ln 3 of the second query: weights 1/4 and 3/4; position 2 is unseen.
    q = np.array([[[5.0], [math.log(3)]]])
    cache_k = np.array([0.0, 1.0, 99.0]).reshape(1, 1, 3, 1)
    cache_v = np.array([8.0, 16.0, 99.0]).reshape(1, 1, 3, 1)
    y = attention_causal(q, cache_k, cache_v, starts(0), 0, EVERYTHING, 1.0, 1, 1)
    np.testing.assert_allclose(y, [[[8.0], [14.0]]], **EXACT)


def test_a_window_of_one_position_gives_its_value() -> None:
    q, cache_v = normal(2, 3, 8), normal(1, 2, 9, 4, seed=1)
    cache_k = normal(1, 2, 9, 4, seed=2)
    y = attention_causal(q, cache_k, cache_v, starts(0, 6), 0, 1, 0.5, 2, 1)
    rows = np.stack([cache_v[0, 0, 0:3], cache_v[0, 1, 6:9]])
    np.testing.assert_array_equal(y, np.tile(rows, 2))


def test_the_last_position_sees_what_attention_without_an_order_sees() -> None:
    q, k, v = (normal(2, 7, 12, seed=i) for i in range(3))
    mask = np.ones((2, 7), np.int32)
    everywhere = attention_bidirectional(q, k, v, mask, 3)
    y = attention_causal(q, k[None], v[None], starts(0, 0), 0, EVERYTHING, 0.5, 3, 3)
    np.testing.assert_allclose(y[:, -1], everywhere[:, -1], **EXACT)


def test_a_prompt_in_two_parts_gives_what_it_gives_at_once() -> None:
    q = normal(1, 9, 8)
    cache_k, cache_v = (normal(1, 1, 9, 4, seed=i) for i in (1, 2))

    def part(first: int, end: int) -> np.ndarray:
        start = starts(first)
        rows = q[:, first:end]
        return attention_causal(rows, cache_k, cache_v, start, 0, 4, 0.5, 2, 1)

    parts = np.concatenate([part(0, 5), part(5, 9)], axis=1)
    np.testing.assert_allclose(parts, part(0, 9), **EXACT)


@pytest.mark.parametrize(
    ("start", "window", "heads", "message"),
    [
        (0, 0, (2, 1), "window must be at least 1, found 0"),
        (0, 9, (3, 2), "heads must divide"),
        (7, 9, (2, 1), "positions must be within ctx = 9, found 7 to 9"),
        (-1, 9, (2, 1), "positions must be within ctx = 9, found -1 to 1"),
    ],
)
def test_attention_causal_refuses(
    start: int, window: int, heads: tuple[int, int], message: str
) -> None:
    cache = normal(1, 1, 9, 4)
    with pytest.raises(ValueError, match=message):
        attention_causal(
            normal(1, 3, 8), cache, cache, starts(start), 0, window, 0.5, *heads
        )


def test_kv_cache_update_writes_the_rows_of_one_layer_and_nothing_else() -> None:
    cache, x = normal(3, 2, 9, 4), normal(2, 3, 4, seed=1)
    before = cache.copy()
    y = kv_cache_update(cache, x, starts(0, 6), 1)
    np.testing.assert_array_equal(cache, before)
    np.testing.assert_array_equal(y[1, 0, :3], x[0])
    np.testing.assert_array_equal(y[1, 1, 6:], x[1])
    changed = np.argwhere((y != before).all(axis=-1)).tolist()
    rows = [(0, 0), (0, 1), (0, 2), (1, 6), (1, 7), (1, 8)]
    assert changed == [[1, b, j] for b, j in rows]


@pytest.mark.parametrize(
    ("start", "layer", "message"),
    [
        (7, 1, "positions must be within ctx = 9, found 7 to 9"),
        (-1, 1, "positions must be within ctx = 9, found -1 to 1"),
        (0, 3, "layer must be below n_layer = 3, found 3"),
    ],
)
def test_kv_cache_update_refuses(start: int, layer: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kv_cache_update(normal(3, 1, 9, 4), normal(1, 3, 4), starts(start), layer)


def in_blocks(
    q: np.ndarray,
    cache_k: np.ndarray,
    cache_v: np.ndarray,
    start: np.ndarray,
    layer: int,
    window: int,
    scale: float,
    n_head: int,
    n_head_kv: int,
    block_size: int,
    sink: np.ndarray,
) -> np.ndarray:
    """Return attention, block_size keys after block_size keys.

    Largest scores, sums and results are carried from block to block, as in algorithm 1
    of Dao et al. 2022, arXiv:2205.14135.
    """
    batch, seq, width = q.shape
    head_dim = width // n_head
    y = np.empty((batch, seq, n_head, head_dim))
    for b, h in np.ndindex(batch, n_head):
        query = q[b, :, h * head_dim : (h + 1) * head_dim].astype(np.float64)
        first_kv = h // (n_head // n_head_kv) * head_dim
        head_kv = slice(first_kv, first_kv + head_dim)
        keys, values = cache_k[layer, b, :, head_kv], cache_v[layer, b, :, head_kv]
        p = start[b] + np.arange(seq)[:, None]
        # Finite also where there is no sink: infinity less infinity is no number.
        peak = np.full((seq, 1), max(float(sink[h]), -1e300))
        total, mix = np.exp(sink[h] - peak), np.zeros((seq, head_dim))
        for first in range(0, len(keys), block_size):
            j = np.arange(first, min(first + block_size, len(keys)))
            score = scale * (query @ keys[j].T.astype(np.float64))
            score = np.where((p - window < j) & (j <= p), score, -np.inf)
            highest = np.maximum(peak, score.max(axis=-1, keepdims=True))
            weight, kept = np.exp(score - highest), np.exp(peak - highest)
            total = kept * total + weight.sum(axis=-1, keepdims=True)
            mix, peak = kept * mix + weight @ values[j].astype(np.float64), highest
        y[b, :, h] = mix / total
    return y.reshape(batch, seq, width)


@pytest.mark.parametrize("block_size", [1, 3, 11, 64])
@pytest.mark.parametrize("window", [1, 4, EVERYTHING])
def test_attention_at_once_is_attention_in_blocks(window: int, block_size: int) -> None:
    q, sink = normal(2, 5, 12), normal(4, seed=3)
    sink[1] = -np.inf
    cache_k, cache_v = (normal(2, 2, 11, 6, seed=i) for i in (1, 2))
    numbers = (1, window, 0.5, 4, 2)
    given = (q, cache_k, cache_v, starts(0, 6), *numbers, block_size, sink)
    np.testing.assert_allclose(attention_causal(*given), in_blocks(*given), **EXACT)


def test_attention_refuses_blocks_of_nothing() -> None:
    cache = normal(1, 1, 9, 4)
    with pytest.raises(ValueError, match="block_size must be at least 1, found 0"):
        attention_causal(normal(1, 3, 4), cache, cache, starts(0), 0, 9, 0.5, 1, 1, 0)
