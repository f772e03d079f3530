"""Which sizes of spectra go together."""

from __future__ import annotations


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes whose frames lie within the signal."""
    sizes["n_bin"] = sizes["n_window"] // 2 + 1
    sizes["n_frame"] = min(sizes["n_frame"], 11)
    sizes["n_sample"] = (sizes["n_frame"] - 1) * sizes["n_hop"] + sizes["n_window"] + 2
    return sizes
