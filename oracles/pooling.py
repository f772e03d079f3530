"""Define what components/pooling must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Mask = NDArray[np.int32]


def mean_pool(x: Floats, mask: Mask) -> NDArray[np.float64]:
    """Return the mean of the real positions of each sequence; zeros where none is real.

    Shapes: x [batch, seq, n_embd], mask [batch, seq] (0 padding, else real)
        -> [batch, n_embd].
    Source: Reimers & Gurevych 2019, arXiv:1908.10084, section 3 (MEAN strategy).
    """
    real = mask[:, :, None] != 0
    # Selected, not multiplied: nothing times infinity is no number.
    total = np.where(real, x.astype(np.float64), 0).sum(axis=1)
    # Sentence Transformers' own guard; a count is 0 or at least 1.
    mean: NDArray[np.float64] = total / np.maximum(real.sum(axis=1), 1e-9)
    return mean
