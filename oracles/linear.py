"""Linear maps: the truth for components/linear; float32 in, float64 out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def linear_bias(x: Floats, weight: Floats, bias: Floats) -> NDArray[np.float64]:
    """Map each row of x by the weight, stored [out, in], and add the bias.

    Shapes: x [batch, seq, n_in], weight [n_out, n_in], bias [n_out]
        -> [batch, seq, n_out].
    Source: torch.nn.Linear.
    """
    return x.astype(np.float64) @ weight.astype(np.float64).T + bias


def linear(x: Floats, weight: Floats) -> NDArray[np.float64]:
    """Map each row of x by the weight, stored [out, in].

    Shapes: x [batch, seq, n_in], weight [n_out, n_in] -> [batch, seq, n_out].
    Source: torch.nn.Linear without bias.
    """
    return x.astype(np.float64) @ weight.astype(np.float64).T
