"""What the arguments of position embeddings mean."""

from __future__ import annotations

from collections.abc import Mapping

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


def positions(draw: Draw) -> np.ndarray:
    """Return positions that the table has, the last among them."""
    found = draw.rng.integers(0, draw.sizes["n_ctx"], draw.shape)
    found[..., -1:] = draw.sizes["n_ctx"] - 1
    return found


def temporal(sizes: Mapping[str, int]) -> int:
    """Return how many pairs time turns: some, and fewer than the others."""
    return max(1, sizes["head_dim"] // 8)


def height(sizes: Mapping[str, int]) -> int:
    """Return how many pairs height turns: half of the rest."""
    return (sizes["head_dim"] // 2 - temporal(sizes)) // 2


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return heads with room for the pairs that are turned."""
    if component == "rope_vision":
        sizes["head_dim"] = max(4, sizes["head_dim"])
        sizes["n_rot"] = sizes["head_dim"] // 4 * 2
    return sizes


VALUES = {"table": table, "positions": positions}
SCALARS = {"n_temporal": temporal, "n_height": height}
