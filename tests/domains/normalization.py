"""Which sizes of norms go together."""

from __future__ import annotations


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes that a float64 oracle is done with at once."""
    if component == "group_norm":
        sizes |= {name: min(sizes[name], 17) for name in ("n_group", "n_in", "n_row")}
    return sizes
