"""Define what components/embedding must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Ids = NDArray[np.int32]


def embedding_lookup(weight: Floats, ids: Ids) -> NDArray[np.float64]:
    """Return the row of the table for every id.

    Shapes: weight [n_vocab, n_embd], ids [batch, seq] -> [batch, seq, n_embd].
    Raises: IndexError if an id is not in [0, n_vocab).
    Source: Mikolov et al. 2013, arXiv:1301.3781, section 3.
    """
    # NumPy takes a negative id from the end; the table has no such row.
    if ids.size and ids.min() < 0:
        raise IndexError(f"id out of range; expected 0 or more, found {ids.min()}")
    return weight.astype(np.float64)[ids]


def add_position(x: Floats, weight: Floats) -> NDArray[np.float64]:
    """Add to each position of x the table's row for it, counting from 0.

    Shapes: x [batch, seq, n_embd], weight [n_ctx, n_embd] -> [batch, seq, n_embd].
    Raises: IndexError if seq > n_ctx.
    Source: Devlin et al. 2018, arXiv:1810.04805, figure 2.
    """
    positions = np.arange(x.shape[1])
    return x.astype(np.float64) + weight.astype(np.float64)[positions]


def embedding_lookup_scaled(
    weight: Floats, ids: Ids, scale: float
) -> NDArray[np.float64]:
    """Return the row of the table for every id, times scale.

    Shapes: weight [n_vocab, n_embd], ids [batch, seq] -> [batch, seq, n_embd].
    Raises: IndexError if an id is not in [0, n_vocab).
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.4.
    """
    return embedding_lookup(weight, ids) * scale
