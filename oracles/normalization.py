"""Normalisations: the truth for components/normalization; float32 in, float64 out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def layer_norm(
    x: Floats, weight: Floats, bias: Floats, eps: float
) -> NDArray[np.float64]:
    """Give the last dimension zero mean and unit variance, then scale and shift it.

    Shapes: x [batch, seq, n_embd], weight, bias [n_embd] -> [batch, seq, n_embd].
    Units: eps is added to the variance.
    Source: Ba et al. 2016, arXiv:1607.06450, eq. 3 and 4.
    """
    exact = x.astype(np.float64)
    centred = exact - exact.mean(axis=-1, keepdims=True)
    # The paper's variance: divided by n_embd, not by n_embd - 1.
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normal: NDArray[np.float64] = centred / np.sqrt(variance + eps)
    return normal * weight + bias


def l2_normalize(x: Floats, eps: float) -> NDArray[np.float64]:
    """Scale each row to unit Euclidean length.

    Shapes: x [batch, n_embd] -> [batch, n_embd].
    Units: eps is the least length to divide by, in the unit of x.
    Source: Schroff et al. 2015, arXiv:1503.03832, section 3; eps as in
        torch.nn.functional.normalize.
    """
    exact = x.astype(np.float64)
    length = np.sqrt(np.square(exact).sum(axis=-1, keepdims=True))
    unit: NDArray[np.float64] = exact / np.maximum(length, eps)
    return unit
