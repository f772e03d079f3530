"""Define what components/activation must compute; the results are float64."""

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


def geglu_tanh(gate: Floats, up: Floats) -> NDArray[np.float64]:
    """Return up, times the tanh approximation of gelu of gate.

    Shapes: gate, up [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Shazeer 2020, arXiv:2002.05202, eq. 5; Hendrycks & Gimpel 2016,
        arXiv:1606.08415, section 2.
    """
    g = gate.astype(np.float64)
    bent = np.sqrt(2.0 / np.pi) * (g + 0.044715 * g**3)
    gelu: NDArray[np.float64] = 0.5 * g * (1.0 + np.tanh(bent))
    return gelu * up


def swiglu(gate: Floats, up: Floats) -> NDArray[np.float64]:
    """Return up, times the sigmoid linear unit of gate.

    Shapes: gate, up [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Shazeer 2020, arXiv:2002.05202, eq. 5 and 6 (Swish_1).
    """
    g = gate.astype(np.float64)
    # By tanh: exp(-g) overflows below -709.
    sigmoid: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * g))
    return g * sigmoid * up


def silu(x: Floats) -> NDArray[np.float64]:
    """Return x times its sigmoid.

    Shapes: x [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Elfwing et al. 2017, arXiv:1702.03118, eq. 5.
    """
    return swiglu(x, np.ones_like(x))


def quick_gelu(x: Floats) -> NDArray[np.float64]:
    """Return x times the sigmoid of 1.702 x, an approximation of gelu.

    Shapes: x [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
    """
    exact = x.astype(np.float64)
    gelu: NDArray[np.float64] = 0.5 * exact * (1.0 + np.tanh(0.851 * exact))
    return gelu


def gelu_tanh(x: Floats) -> NDArray[np.float64]:
    """Return the tanh approximation of gelu.

    Shapes: x [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Hendrycks & Gimpel 2016, arXiv:1606.08415, section 2.
    """
    return geglu_tanh(x, np.ones_like(x))


def relu(x: Floats) -> NDArray[np.float64]:
    """Return what of x is above 0, and 0 elsewhere.

    Shapes: x [batch, seq, n_ff] -> [batch, seq, n_ff].
    Source: Nair & Hinton 2010, "Rectified Linear Units Improve Restricted Boltzmann
        Machines", section 2.
    """
    return np.maximum(x.astype(np.float64), 0.0)
