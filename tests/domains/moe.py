"""What the arguments of mixtures of experts mean, and which sizes go together."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw
from tests.domains.linear import fit as fit_tiles
from tests.domains.linear import weight_i8, weight_scale


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes with no more experts used than there are."""
    if "n_expert" in sizes and "n_expert_used" in sizes:
        sizes["n_expert_used"] = min(sizes["n_expert_used"], sizes["n_expert"])
    # A tile_n that a model has stays as it is.
    fits = sizes.get("tile_n", 8) in (4, 8, 16)
    return sizes if fits else fit_tiles(component, sizes)


def ids(draw: Draw) -> np.ndarray:
    """Return experts that there are, the last among them."""
    end = draw.sizes["n_expert"]
    found = draw.rng.integers(0, end, draw.shape)
    found[..., -1:] = end - 1
    return found


def logits(draw: Draw) -> np.ndarray:
    """Return normal numbers; in variant 1 many are equal, in 2 rows are far from zero.

    So far that exponentials of them all are zero, or infinite, in f32.
    """
    numbers = draw.rng.standard_normal(draw.shape)
    if draw.variant == 2:
        apart = draw.rng.choice([-128.0, 128.0], (*draw.shape[:-1], 1))
        return np.asarray(numbers + apart)
    return np.round(numbers) if draw.variant == 1 else numbers


def share(draw: Draw) -> np.ndarray:
    """Return numbers above zero, so that their sum is no difference of large ones."""
    return 0.1 + draw.rng.random(draw.shape)


def weight(draw: Draw) -> np.ndarray:
    """Return matrices whose products with normal rows are normal."""
    numbers = draw.rng.standard_normal(draw.shape)
    return np.asarray(numbers / np.sqrt(draw.sizes["n_in"]))


VALUES = {
    "ids": ids,
    "logits": logits,
    "share": share,
    "weight": weight,
    "weight_scale": weight_scale,
    "mul_mat_id_packed_i8.weight": weight_i8,
    "mul_mat_id_per_expert_x_packed_i8.weight": weight_i8,
}
VARIANTS = {"expert_router": 3}
