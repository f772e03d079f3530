"""Which sizes of parts and wholes go together, and where parts begin."""

from __future__ import annotations

from collections.abc import Mapping


def first(sizes: Mapping[str, int]) -> int:
    """Return the column from which the last ones are kept."""
    return sizes["n_embd"] - sizes["n_keep"]


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes of parts that are no larger than the whole."""
    if "n_keep" in sizes:
        sizes["n_keep"] = min(sizes["n_keep"], (sizes["n_embd"] + 1) // 2)
    if component == "slice_leading":
        sizes["n_keep"] = min(sizes["n_keep"], sizes["n_ctx"])
    if "n_padded" in sizes:
        sizes["n_padded"] += sizes["n_embd"]
    return sizes


SCALARS = {"first": first, "value": (0.5, -2.0)}
