"""Define what components that work on paged caches must compute, in float64.

Components: components/cache/paged_*, components/attention/attention_paged*.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Blocks = NDArray[np.int32]
Positions = NDArray[np.int32]


def paged_cache_update(
    cache: Floats, x: Floats, block_table: Blocks, start: Positions, layer: int
) -> NDArray[np.float64]:
    """Return the pool with the rows of x in the blocks that the table lists.

    Rows beyond the table are written to block 0, which belongs to no sequence: of
    several rows for one place there any one may stay; here it is the last.

    Shapes: cache [n_layer, n_block, block_size, n_embd_kv], x [batch, seq, n_embd_kv],
        block_table [batch, n_block_seq], start [batch]
        -> [n_layer, n_block, block_size, n_embd_kv], a new array.
    Raises: ValueError if a block, a position or the layer is not there.
    Source: Kwon et al. 2023, arXiv:2309.06180, sections 4.1 and 4.3.
    """
    block_size = cache.shape[2]
    _refuse_outside(cache, block_table, layer)
    if start.min(initial=0) < 0:
        raise ValueError(f"positions must not be negative, found {start.min()}")
    y = cache.astype(np.float64)
    for b, first in enumerate(start):
        for s, row in enumerate(x[b]):
            number, slot = divmod(int(first) + s, block_size)
            block = block_table[b, number] if number < block_table.shape[1] else 0
            y[layer, block, slot] = row
    return y


def paged_cache_gather(
    cache: Floats, block_table: Blocks, layer: int
) -> NDArray[np.float64]:
    """Return the blocks of each sequence, one behind the other.

    Shapes: cache [n_layer, n_block, block_size, n_embd_kv],
        block_table [batch, n_block_seq] -> [batch, n_block_seq, block_size, n_embd_kv].
    Raises: ValueError if a block or the layer is not there.
    Source: Kwon et al. 2023, arXiv:2309.06180, section 4.1.
    """
    _refuse_outside(cache, block_table, layer)
    y: NDArray[np.float64] = cache[layer][block_table].astype(np.float64)
    return y


def attention_paged(
    q: Floats,
    keys: Floats,
    values: Floats,
    block_table: Blocks,
    start: Positions,
    layer: int,
    window: int,
    scale: float,
    cap: float,
    n_head: int,
    n_head_kv: int,
) -> NDArray[np.float64]:
    """Let every query attend to its own position and those before it, in blocks.

    Query s of sequence b stands at position p = start[b] + s and sees the positions j
    with p - window < j <= p; head h of q reads head h // (n_head // n_head_kv) of the
    caches, of which position j is row j % block_size of the block that the table lists
    at j // block_size.

    Shapes: q [batch, seq, n_head*head_dim],
        keys, values [n_layer, n_block, block_size, n_head_kv*head_dim],
        block_table [batch, n_block_seq], start [batch]
        -> [batch, seq, n_head*head_dim].
    Units: cap has the unit of scores; 0 is none.
    Raises: ValueError if heads do not divide, window is below 1, or a block, a layer or
        a position is not there.
    Source: Kwon et al. 2023, arXiv:2309.06180, section 4.1; Vaswani et al. 2017,
        arXiv:1706.03762, eq. 1; cap: arXiv:2408.00118, section 2.
    """
    batch, seq, width = q.shape
    width_kv, ctx = keys.shape[3], block_table.shape[1] * keys.shape[2]
    _refuse_outside(keys, block_table, layer)
    _refuse_numbers(n_head, n_head_kv, width, width_kv, window)
    _refuse_positions(start, seq, ctx)
    head_dim = width // n_head
    y = np.empty((batch, seq, n_head, head_dim), dtype=np.float64)
    for b in range(batch):
        key, value = (
            cache[layer, block_table[b]].astype(np.float64).reshape(ctx, n_head_kv, -1)
            for cache in (keys, values)
        )
        for s in range(seq):
            p = int(start[b]) + s
            seen = slice(max(0, p - window + 1), p + 1)
            for h in range(n_head):
                query = q[b, s, h * head_dim : (h + 1) * head_dim].astype(np.float64)
                shared = h // (n_head // n_head_kv)
                score = scale * (key[seen, shared] @ query)
                score = cap * np.tanh(score / cap) if cap > 0 else score
                weight = np.exp(score - score.max())
                y[b, s, h] = weight @ value[seen, shared] / weight.sum()
    return y.reshape(batch, seq, width)


def attention_paged_decode(
    q: Floats,
    keys: Floats,
    values: Floats,
    block_table: Blocks,
    start: Positions,
    layer: int,
    window: int,
    scale: float,
    cap: float,
    n_head: int,
    n_head_kv: int,
) -> NDArray[np.float64]:
    """Let one query of each sequence attend to its position and those before it.

    The sums over positions are sums over blocks: o = sum_j(V_j A_j), where block j has
    the keys K_j and the values V_j, and A_j is exp(scale K_j q) / sum_t(exp(scale K_t
    q)).

    Shapes: q [batch, 1, n_head*head_dim],
        keys, values [n_layer, n_block, block_size, n_head_kv*head_dim],
        block_table [batch, n_block_seq], start [batch] -> [batch, 1, n_head*head_dim].
    Units: cap has the unit of scores; 0 is none.
    Raises: ValueError where attention_paged does.
    Source: Kwon et al. 2023, arXiv:2309.06180, section 4.1, eq. 4; window:
        arXiv:2004.05150, section 3.1; cap: arXiv:2408.00118, section 2.
    """
    batch, _, width = q.shape
    block_size, width_kv = keys.shape[2:]
    _refuse_outside(keys, block_table, layer)
    _refuse_numbers(n_head, n_head_kv, width, width_kv, window)
    _refuse_positions(start, 1, block_table.shape[1] * block_size)
    heads = (n_head_kv, n_head // n_head_kv, width // n_head)
    query = q.astype(np.float64).reshape(batch, *heads)
    y = np.empty_like(query)
    for b, p in enumerate(start.tolist()):
        scores, found = [], []
        for j in range(p // block_size + 1):
            shape = (block_size, n_head_kv, -1)
            key = keys[layer, block_table[b, j]].reshape(shape).astype(np.float64)
            value = values[layer, block_table[b, j]].reshape(shape).astype(np.float64)
            score = scale * np.einsum("hgd,ihd->hgi", query[b], key)
            score = cap * np.tanh(score / cap) if cap > 0 else score
            position = j * block_size + np.arange(block_size)
            seen = (position <= p) & (position > p - window)
            scores.append(np.where(seen, score, -np.inf))
            # Nothing is known of what a block holds at other positions.
            found.append(np.where(seen[:, None, None], value, 0))
        peak = np.max(scores, axis=(0, 3))[..., None]
        shares = [np.exp(score - peak) for score in scores]
        total = np.sum(shares, axis=(0, 3))[..., None]
        pairs = zip(shares, found, strict=True)
        y[b] = sum(np.einsum("hgi,ihd->hgd", a / total, v) for a, v in pairs)
    return y.reshape(batch, 1, width)


def _refuse_numbers(
    n_head: int, n_head_kv: int, width: int, width_kv: int, window: int
) -> None:
    """Reject heads that do not divide or differ in size, and an empty window.

    Raises: ValueError.
    """
    if n_head % n_head_kv or width % n_head or width // n_head * n_head_kv != width_kv:
        found = f"{n_head} and {n_head_kv} heads of {width} and {width_kv} columns"
        raise ValueError(f"heads must divide and be of one size, found {found}")
    if window < 1:
        raise ValueError(f"window must be at least 1, found {window}")


def _refuse_positions(start: Positions, seq: int, ctx: int) -> None:
    """Reject queries before or after the positions in the tables.

    Raises: ValueError.
    """
    if start.min(initial=0) < 0 or start.max(initial=-seq) + seq > ctx:
        found = f"{start.min()} to {start.max() + seq - 1}"
        raise ValueError(f"positions must be within the table's {ctx}, found {found}")


def _refuse_outside(cache: Floats, block_table: Blocks, layer: int) -> None:
    """Reject a layer or a block that the pool does not have.

    Raises: ValueError.
    """
    n_layer, n_block = cache.shape[:2]
    if not 0 <= layer < n_layer:
        raise ValueError(f"layer must be below n_layer = {n_layer}, found {layer}")
    if block_table.min(initial=0) < 0 or block_table.max(initial=0) >= n_block:
        found = f"{block_table.min()} to {block_table.max()}"
        raise ValueError(f"blocks must be below n_block = {n_block}, found {found}")
