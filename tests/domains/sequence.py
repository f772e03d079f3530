"""What the arguments of parts of sequences mean."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw


def last(draw: Draw) -> np.ndarray:
    """Return positions that the sequence has, the last among them."""
    found = draw.rng.integers(0, draw.sizes["seq"], draw.shape)
    found[-1:] = draw.sizes["seq"] - 1
    return found


VALUES = {"last": last}
