"""What the arguments of embeddings mean."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw
from tests.domains.linear import (
    PACKED_BLOCKS,
    PACKED_U32,
    weight_scale,
    weight_scale_i4,
    weight_words,
)
from tests.domains.linear import fit as fit


def ids(draw: Draw) -> np.ndarray:
    """Return rows that the table has, the last among them."""
    sizes = draw.sizes
    end = sizes.get("n_vocab", sizes.get("n_tile", 0) * sizes.get("tile_n", 8))
    found = draw.rng.integers(0, end, draw.shape)
    found[..., -1:] = end - 1
    return found


VALUES = {
    **{f"embedding_lookup_{name}": draw for name, draw in PACKED_U32.items()},
    **{f"embedding_lookup_{name}": draw for name, draw in PACKED_BLOCKS.items()},
    "ids": ids,
    "weight_scale": weight_scale,
    "embedding_lookup_packed_i4_block32.weight_scale": weight_scale_i4,
    "embedding_lookup_packed_i4_block32.weight": weight_words,
}
