"""What the arguments of caches mean, and which sizes go together."""

from __future__ import annotations

from collections.abc import Mapping


def layer(sizes: Mapping[str, int]) -> int:
    """Return a layer that the cache has, and not its first where there is another."""
    return min(1, sizes["n_layer"] - 1)


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes of a cache with a few layers: they are addresses."""
    if "n_layer" in sizes:
        sizes["n_layer"] = min(sizes["n_layer"], 3)
    return sizes


SCALARS = {"layer": layer}
