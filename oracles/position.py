"""Define what components/position must compute; the results are float64."""

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


def rope_multimodal(
    x: Floats,
    table: Floats,
    positions: Positions,
    n_temporal: int,
    n_height: int,
    n_head: int,
) -> NDArray[np.float64]:
    """Turn the pairs of each head by positions in time, height and width.

    Shapes: x [batch, seq, n_head*head_dim], table [n_ctx, head_dim] (cosines, then
        sines), positions [3, batch, seq] -> [batch, seq, n_head*head_dim].
    Units: n_temporal and n_height count pairs (i, i + head_dim/2); the rest is width's.
    Raises: IndexError if a position is not in [0, n_ctx).
    Source: Wang et al. 2024, arXiv:2409.12191, section 2.1.
    """
    _refuse_negative(positions)
    batch, seq, n_column = x.shape
    y = x.astype(np.float64).reshape(batch, seq, n_head, n_column // n_head)
    half = y.shape[-1] // 2
    axes = [0] * n_temporal + [1] * n_height
    axes += [2] * (half - len(axes))
    for i, axis in enumerate(axes):
        angles = table.astype(np.float64)[positions[axis]]
        _turn_pair(y, i, i + half, angles[..., i], angles[..., i + half])
    return y.reshape(x.shape)


def rope_vision(
    x: Floats, table: Floats, positions: Positions, n_head: int
) -> NDArray[np.float64]:
    """Turn the pairs (i, i + n_rot) of each head by row, then by column.

    Shapes: x [batch, seq, n_head*head_dim], table [n_ctx, n_rot] (cosines, then sines,
        n_rot/2 of each), positions [2, batch, seq] (row, column)
        -> [batch, seq, n_head*head_dim]; columns from 2*n_rot on stay as they are.
    Raises: IndexError if a position is not in [0, n_ctx).
    Source: Wang et al. 2024, arXiv:2409.12191, section 2.1; Heo et al. 2024,
        arXiv:2403.13298, section 3.2.
    """
    _refuse_negative(positions)
    batch, seq, n_column = x.shape
    y = x.astype(np.float64).reshape(batch, seq, n_head, n_column // n_head)
    n_rot = table.shape[1]
    n_angle = n_rot // 2
    for i in range(n_rot):
        axis, k = divmod(i, n_angle)
        angles = table.astype(np.float64)[positions[axis]]
        _turn_pair(y, i, i + n_rot, angles[..., k], angles[..., k + n_angle])
    return y.reshape(x.shape)


def _turn_pair(
    y: NDArray[np.float64],
    one: int,
    other: int,
    cosine: NDArray[np.float64],
    sine: NDArray[np.float64],
) -> None:
    """Turn two columns of every head in place; an angle for each [batch, seq]."""
    a, b = y[..., one].copy(), y[..., other].copy()
    y[..., one] = a * cosine[..., None] - b * sine[..., None]
    y[..., other] = a * sine[..., None] + b * cosine[..., None]


def _refuse_negative(positions: Positions) -> None:
    """Reject negative positions, which NumPy would count from the end."""
    if positions.size and positions.min() < 0:
        found = positions.min()
        raise IndexError(f"position out of range; expected 0 or more, found {found}")


def _turn(
    x: Floats,
    table: Floats,
    start: Positions,
    n_head: int,
    pairs: list[tuple[int, int]],
) -> NDArray[np.float64]:
    """Turn pair number i of every head by the i-th angle of its position."""
    _refuse_negative(start)
    batch, seq, width = x.shape
    y = x.astype(np.float64).reshape(batch, seq, n_head, width // n_head)
    position = start[:, None] + np.arange(seq)
    angles = table.astype(np.float64)[position]
    for i, (one, other) in enumerate(pairs):
        _turn_pair(y, one, other, angles[..., i], angles[..., i + len(pairs)])
    return y.reshape(x.shape)
