"""Attention: the truth for components/attention; float32 in, float64 out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Mask = NDArray[np.int32]


def attention_bidirectional(
    q: Floats, k: Floats, v: Floats, mask: Mask, n_head: int
) -> NDArray[np.float64]:
    """Let every position attend to every real position of its sequence, head by head.

    A sequence without any real position attends to all of its positions alike.

    Shapes: q, k, v [batch, seq, n_embd], mask [batch, seq] (1 real, 0 padding)
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
            # Padding drops out of the sum; without a real position no score says more
            # than another.
            score = np.where(real, score, -np.inf) if real.any() else 0.0 * score
            weight = np.exp(score - score.max(axis=-1, keepdims=True))
            y[b, :, head] = weight / weight.sum(axis=-1, keepdims=True) @ value
    return y
