"""Which sizes of norms go together, and what their arguments mean."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw


def far_from_zero(draw: Draw) -> np.ndarray:
    """Return numbers near zero, or so low that their exponentials are all zero."""
    numbers = draw.rng.standard_normal(draw.shape)
    return numbers - 128 if draw.variant else numbers


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes that a float64 oracle is done with at once."""
    if component == "group_norm":
        sizes |= {
            name: min(sizes[name], 17) for name in ("n_group", "n_in", "n_row", "n_col")
        }
    return sizes


VALUES = {"softmax.x": far_from_zero}
# The least length to divide by: less than every row's, and more than many a row's.
SCALARS = {"l2_normalize.eps": (1e-12, 3.0)}
VARIANTS = {"softmax": 2}
