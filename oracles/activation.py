"""Activations: the truth for components/activation; float32 in, float64 out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def gelu_erf(x: Floats) -> NDArray[np.float64]:
    """Return x times the probability that a standard normal variable is at most x.

    Shapes: x [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
    """
    exact = x.astype(np.float64)
    # erfc keeps the digits of the lower tail, where 1 + erf cancels.
    probability = [math.erfc(-value / math.sqrt(2.0)) / 2.0 for value in exact.flat]
    return exact * np.array(probability, dtype=np.float64).reshape(exact.shape)
