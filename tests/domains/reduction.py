"""What the arguments of reductions mean, and which sizes go together."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw


def with_ties(draw: Draw) -> np.ndarray:
    """Return numbers of which many are equal, or of which all are below zero."""
    numbers = draw.rng.standard_normal(draw.shape)
    return np.round(2 * numbers) / 2 if draw.variant == 0 else -1 - np.abs(numbers)


def one_sided(draw: Draw) -> np.ndarray:
    """Return numbers that are all below zero, or all above: no start is a result."""
    numbers = 1 + np.abs(draw.rng.standard_normal(draw.shape))
    return numbers if draw.variant else -numbers


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes where no more is taken of a row than it has."""
    if "k" in sizes:
        sizes["k"] = min(sizes["k"], sizes["n_embd"])
    return sizes


VALUES = {
    "argmax.x": with_ties,
    "argsort.x": with_ties,
    "topk.x": with_ties,
    "reduce_max.x": one_sided,
    "reduce_min.x": one_sided,
}
VARIANTS = dict.fromkeys(("argmax", "argsort", "topk", "reduce_max", "reduce_min"), 2)
