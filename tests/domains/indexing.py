"""What indices and conditions mean, and which sizes go together."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw


def positions(draw: Draw) -> np.ndarray:
    """Return positions that the sequence has, each once: a row goes to one place."""
    places = np.tile(np.arange(draw.sizes["ctx"]), (draw.shape[0], 1))
    return draw.rng.permuted(places, axis=1)[:, : draw.shape[1]]


def condition(draw: Draw) -> np.ndarray:
    """Return zeros, and what else counts as true."""
    return draw.rng.integers(-1, 2, draw.shape)


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes with a row for each place, and more."""
    if "n_patch" in sizes:
        sizes["n_patch"] = sizes["batch"] * sizes["seq"] + 2
    return sizes


VALUES = {"positions": positions, "condition": condition}
