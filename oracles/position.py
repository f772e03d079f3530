"""Rotary positions: the truth for components/position; float32 in, float64 out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Positions = NDArray[np.int32]


def rope(
    x: Floats, table: Floats, start: Positions, n_head: int
) -> NDArray[np.float64]:
    """Turn the pairs (i, i + n_rot/2) of each head by the angles of their position.

    Shapes: x [batch, seq, n_head*head_dim], table [n_ctx, n_rot] (cosines, then sines,
        n_rot/2 of each), start [batch] (position of row 0)
        -> [batch, seq, n_head*head_dim]; columns from n_rot on stay as they are.
    Raises: IndexError if a position is not in [0, n_ctx).
    Source: Su et al. 2021, arXiv:2104.09864, eq. 34; pairs as in Black et al. 2022,
        arXiv:2204.06745, section 2.1.
    """
    half = table.shape[1] // 2
    return _turn(x, table, start, n_head, [(i, i + half) for i in range(half)])


def rope_interleaved(
    x: Floats, table: Floats, start: Positions, n_head: int
) -> NDArray[np.float64]:
    """Turn the pairs (2i, 2i + 1) of each head by the angles of their position.

    Shapes: x [batch, seq, n_head*head_dim], table [n_ctx, n_rot] (cosines, then sines,
        n_rot/2 of each), start [batch] (position of row 0)
        -> [batch, seq, n_head*head_dim]; columns from n_rot on stay as they are.
    Raises: IndexError if a position is not in [0, n_ctx).
    Source: Su et al. 2021, arXiv:2104.09864, eq. 34.
    """
    half = table.shape[1] // 2
    return _turn(x, table, start, n_head, [(2 * i, 2 * i + 1) for i in range(half)])


def _turn(
    x: Floats,
    table: Floats,
    start: Positions,
    n_head: int,
    pairs: list[tuple[int, int]],
) -> NDArray[np.float64]:
    """Turn pair number i of every head by the i-th angle of its position."""
    # NumPy takes a negative position from the end; the table has no such row.
    if start.size and start.min() < 0:
        raise IndexError(f"position out of range; expected 0 or more, found {start}")
    batch, seq, width = x.shape
    y = x.astype(np.float64).reshape(batch, seq, n_head, width // n_head)
    position = start[:, None] + np.arange(seq)
    angle = table.astype(np.float64)[position][:, :, None, :]
    for i, (one, other) in enumerate(pairs):
        cosine, sine = angle[..., i], angle[..., i + len(pairs)]
        a, b = y[..., one].copy(), y[..., other].copy()
        y[..., one] = a * cosine - b * sine
        y[..., other] = a * sine + b * cosine
    return y.reshape(x.shape)
