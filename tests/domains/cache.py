"""What the arguments of caches mean, and which sizes go together."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tests.component_cases import Draw

# Positions that the blocks of a sequence hold beyond the longest, at least.
SPARE = 3


def layer(sizes: Mapping[str, int]) -> int:
    """Return a layer that the cache has, and not its first where there is another."""
    return min(1, sizes["n_layer"] - 1)


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes of a cache with a few layers: they are addresses."""
    if "n_layer" in sizes:
        sizes["n_layer"] = min(sizes["n_layer"], 3)
    if "paged" in component:
        positions = sizes.get("seq", 1) + SPARE
        sizes["n_block_seq"] = -(-positions // sizes["block_size"])
        # Block 0 is nobody's, and two are free.
        sizes["n_block"] = 3 + sizes["batch"] * sizes["n_block_seq"]
    return sizes


def block_table(draw: Draw) -> np.ndarray:
    """Return blocks anywhere in the pool, none of them two sequences'.

    In variant 1 the last sequence has no block yet where its table ends.
    """
    blocks = 1 + draw.rng.permutation(draw.sizes["n_block"] - 1)
    found = blocks[: int(np.prod(draw.shape))].reshape(draw.shape)
    if draw.variant == 1:
        found[-1:, -1:] = 0
    return found


def paged_start(draw: Draw) -> np.ndarray:
    """Return first positions with room behind them in the sequence's blocks.

    In variant 1 the last sequence reaches the end of its table; in 2 the first runs
    past it, by no more than a block: of several rows for one place any may be found.
    """
    seq, block_size = draw.sizes.get("seq", 1), draw.sizes["block_size"]
    last = draw.sizes["n_block_seq"] * block_size - seq
    found = draw.rng.integers(0, last + 1, draw.shape)
    if draw.variant == 1:
        found[-1:] = last
    if draw.variant == 2:
        found[:1] = last + min(seq, block_size)
    return found


def ending_in_nobody(draw: Draw) -> np.ndarray:
    """Return blocks of which the last is nobody's: a sequence without one yet."""
    blocks = block_table(draw)
    blocks[-1:, -1:] = 0
    return blocks


VALUES = {
    "block_table": block_table,
    "paged_cache_gather.block_table": ending_in_nobody,
    "paged_cache_update.start": paged_start,
}
SCALARS = {"layer": layer}
VARIANTS = {"paged_cache_gather": 2, "paged_cache_update": 3}
