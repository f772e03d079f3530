"""Define what components/attention must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Mask = NDArray[np.int32]
Positions = NDArray[np.int32]


def attention_bidirectional(
    q: Floats, k: Floats, v: Floats, mask: Mask, n_head: int
) -> NDArray[np.float64]:
    """Let every position attend to every real position of its sequence, head by head.

    A sequence without any real position gives 0.

    Shapes: q, k, v [batch, seq, n_embd], mask [batch, seq] (0 padding, else real)
        -> [batch, seq, n_embd]; head h is columns h*head_dim to (h+1)*head_dim - 1.
    Raises: ValueError if n_head does not divide n_embd.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1 and section 3.2.2.
    """
    batch, seq, n_embd = q.shape
    if n_embd % n_head:
        raise ValueError(f"n_head must divide n_embd = {n_embd}, found {n_head}")
    head_dim = n_embd // n_head
    y = np.empty((batch, seq, n_embd), dtype=np.float64)
    for b in range(batch):
        real = mask[b] != 0
        for h in range(n_head):
            head = slice(h * head_dim, (h + 1) * head_dim)
            query, key, value = (t[b, :, head].astype(np.float64) for t in (q, k, v))
            score = query @ key.T / np.sqrt(head_dim)
            # Padding drops out of the sum, whatever it is.
            score = (
                np.where(real, score, -np.inf) if real.any() else np.zeros((seq, seq))
            )
            value[~real] = 0.0
            weight = np.exp(score - score.max(axis=-1, keepdims=True))
            y[b, :, head] = weight / weight.sum(axis=-1, keepdims=True) @ value
    return y


def attention_causal(
    q: Floats,
    cache_k: Floats,
    cache_v: Floats,
    start: Positions,
    layer: int,
    window: int,
    scale: float,
    n_head: int,
    n_head_kv: int,
    block_size: int = 64,
    sink: Floats | None = None,
) -> NDArray[np.float64]:
    """Let every query attend to its own position and those before it, in a cache.

    Query s of sequence b stands at position p = start[b] + s and sees the positions j
    with p - window < j <= p; head h of q reads head h // (n_head // n_head_kv) of the
    caches. A sink is a score a head that has no value. How many queries are computed at
    once makes no difference.

    Shapes: q [batch, seq, n_head*head_dim],
        cache_k, cache_v [n_layer, batch, ctx, n_head_kv*head_dim], start [batch],
        sink [n_head], of which -infinity is none -> [batch, seq, n_head*head_dim].
    Raises: ValueError if the heads do not divide, window or block_size is below 1, or a
        query is before or behind the cache's positions.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1; groups: arXiv:2305.13245;
        window: arXiv:2004.05150, section 3.1; sink: Xiao et al. 2023, arXiv:2309.17453,
        section 3.3, a learned one: OpenAI 2025, arXiv:2508.10925, section 2.2.
    """
    batch, seq, width = q.shape
    ctx, width_kv = cache_k.shape[2:]
    _check_heads(n_head, n_head_kv, width, width_kv, window)
    _check_positions(start, seq, ctx)
    if block_size < 1:
        raise ValueError(f"block_size must be at least 1, found {block_size}")
    sinks = np.full(n_head, -np.inf) if sink is None else sink
    head_dim = width // n_head
    y = np.empty((batch, seq, width), dtype=np.float64)
    for b in range(batch):
        # Nothing is known of what the cache holds behind the new tokens.
        end = int(start[b]) + seq
        j = np.arange(end)
        p = start[b] + np.arange(seq)[:, None]
        seen = (p - window < j) & (j <= p)
        for h in range(n_head):
            h_kv = h // (n_head // n_head_kv)
            head = slice(h * head_dim, (h + 1) * head_dim)
            head_kv = slice(h_kv * head_dim, (h_kv + 1) * head_dim)
            query = q[b, :, head].astype(np.float64)
            key = cache_k[layer, b, :end, head_kv].astype(np.float64)
            value = cache_v[layer, b, :end, head_kv].astype(np.float64)
            score = np.where(seen, scale * (query @ key.T), -np.inf)
            peak = np.maximum(score.max(axis=-1, keepdims=True), sinks[h])
            weight = np.exp(score - peak)
            total = weight.sum(axis=-1, keepdims=True) + np.exp(sinks[h] - peak)
            y[b, :, head] = weight / total @ value
    return y


def _check_positions(start: Positions, seq: int, ctx: int) -> None:
    if start.min(initial=0) < 0 or start.max(initial=0) + seq > ctx:
        found = f"{start.min()} to {start.max() + seq - 1}"
        raise ValueError(f"positions must be within ctx = {ctx}, found {found}")


def _check_heads(
    n_head: int, n_head_kv: int, width: int, width_kv: int, window: int
) -> None:
    if n_head % n_head_kv or width % n_head or width // n_head * n_head_kv != width_kv:
        found = f"{n_head} and {n_head_kv} heads of {width} and {width_kv} columns"
        raise ValueError(f"heads must divide and be of one size, found {found}")
    if window < 1:
        raise ValueError(f"window must be at least 1, found {window}")
