"""What the arguments of position embeddings mean."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw


def angles(n_ctx: int, n_rot: int) -> np.ndarray:
    """Return the cosines, then the sines, of what each position turns each pair by."""
    pairs = np.arange(n_rot // 2)
    angle = np.arange(n_ctx)[:, None] * 10_000.0 ** (-2 * pairs / n_rot)
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32)


def table(draw: Draw) -> np.ndarray:
    """Return the table that rotary positions read."""
    n_ctx, n_rot = draw.shape
    return angles(n_ctx, n_rot)


VALUES = {"table": table}
