"""What the arguments of caches mean."""

from __future__ import annotations

from collections.abc import Mapping


def layer(sizes: Mapping[str, int]) -> int:
    """Return a layer that the cache has, and not its first where there is another."""
    return min(1, sizes["n_layer"] - 1)


SCALARS = {"layer": layer}
