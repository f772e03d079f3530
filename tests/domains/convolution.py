"""Which sizes of convolutions go together, and what their arguments mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tests.component_cases import Draw

AXES = {
    "conv1d": ("step",),
    "conv2d": ("row", "col"),
    "conv3d": ("frame", "row", "col"),
}


def padding(axis: str) -> Callable[[Mapping[str, int]], int]:
    """Return what pads an axis: half a kernel, or nothing where that fits no result."""
    stride = "stride" if axis == "step" else f"stride_{axis}"

    def padded(sizes: Mapping[str, int]) -> int:
        length = sizes[f"k_{axis}"]
        room = sizes[f"n_{axis}"] + 2 * (length // 2) - length
        return length // 2 if room // sizes[stride] + 1 == sizes[f"y_{axis}"] else 0

    return padded


def weight(draw: Draw) -> np.ndarray:
    """Return kernels that keep the size of what they slide over."""
    size = np.sqrt(np.prod(draw.shape[1:]))
    return np.asarray(draw.rng.standard_normal(draw.shape) / size)


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes of results that follow from kernel, stride and padding.

    Kernels, strides and channels are small, and differ from axis to axis.
    """
    axes = AXES.get(component, ())
    for number, axis in enumerate(axes):
        stride = "stride" if len(axes) == 1 else f"stride_{axis}"
        sizes[f"k_{axis}"] = min(sizes[f"k_{axis}"], 2 + number)
        sizes[stride] = min(sizes[stride], 1 + (number + sizes["n_out"]) % 3)
        sizes[f"n_{axis}"] = min(max(sizes[f"n_{axis}"], sizes[f"k_{axis}"]), 20)
        room = sizes[f"n_{axis}"] + 2 * (sizes[f"k_{axis}"] // 2) - sizes[f"k_{axis}"]
        sizes[f"y_{axis}"] = room // sizes[stride] + 1
    if not axes:
        # Images of many channels are many images.
        sizes["n_channel"] = min(sizes["n_channel"], 7)
    else:
        sizes |= {name: min(sizes[name], 9) for name in ("n_in", "n_out")}
        sizes["n_group"] = min(sizes["n_group"], 3)
    return sizes


VALUES = {"weight": weight}
SCALARS = {
    "padding": padding("step"),
    **{f"padding_{axis}": padding(axis) for axis in AXES["conv3d"]},
}
