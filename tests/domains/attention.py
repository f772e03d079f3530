"""What the arguments of attention mean, and which sizes go together."""

from __future__ import annotations

from tests.domains.cache import layer


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes whose rows are whole heads."""
    if sizes.get("n_embd", 0) % sizes["n_head"]:
        sizes["n_embd"] *= sizes["n_head"]
    return sizes


SCALARS = {"layer": layer}
