"""Define what components/sequence must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Positions = NDArray[np.int32]


def last_position(x: Floats, last: Positions) -> NDArray[np.float64]:
    """Return the row of each sequence that its last token made.

    Shapes: x [batch, seq, n_embd], last [batch] (index in seq) -> [batch, 1, n_embd].
    Raises: IndexError if an index is not in [0, seq).
    Source: Radford et al. 2018, "Improving Language Understanding by Generative
        Pre-Training", section 3.2.
    """
    # NumPy takes a negative index from the end; the component does not.
    if last.min(initial=0) < 0:
        raise IndexError(f"index out of range; expected 0 or more, found {last.min()}")
    return x[np.arange(len(x)), last].astype(np.float64)[:, None]
