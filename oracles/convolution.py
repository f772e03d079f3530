"""Define what components/convolution must compute; the results are float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def conv1d(
    x: Floats,
    weight: Floats,
    bias: Floats,
    padding: int,
    stride: int,
    y_step: int,
    n_group: int,
) -> NDArray[np.float64]:
    """Slide kernels along signals.

    Shapes: x [batch, n_group*n_in, n_step], weight [n_group*n_out, n_in, k_step],
        bias [n_group*n_out] -> [batch, n_group*n_out, y_step].
    Raises: ValueError if the sizes do not agree.
    Source: LeCun et al. 1998, section II.A; the rest: torch.nn.Conv1d.
    """
    return _slide(x, weight, bias, (padding,), (stride,), (y_step,), n_group)


def conv2d(
    x: Floats,
    weight: Floats,
    bias: Floats,
    padding_row: int,
    padding_col: int,
    stride_row: int,
    stride_col: int,
    y_row: int,
    y_col: int,
    n_group: int,
) -> NDArray[np.float64]:
    """Slide kernels over images.

    Shapes: x [batch, n_group*n_in, n_row, n_col],
        weight [n_group*n_out, n_in, k_row, k_col], bias [n_group*n_out]
        -> [batch, n_group*n_out, y_row, y_col].
    Raises: ValueError if the sizes do not agree.
    Source: LeCun et al. 1998, section II.A; the rest: torch.nn.Conv2d.
    """
    padding, stride = (padding_row, padding_col), (stride_row, stride_col)
    return _slide(x, weight, bias, padding, stride, (y_row, y_col), n_group)


def conv3d(
    x: Floats,
    weight: Floats,
    bias: Floats,
    padding_frame: int,
    padding_row: int,
    padding_col: int,
    stride_frame: int,
    stride_row: int,
    stride_col: int,
    y_frame: int,
    y_row: int,
    y_col: int,
    n_group: int,
) -> NDArray[np.float64]:
    """Slide kernels through films.

    Shapes: x [batch, n_group*n_in, n_frame, n_row, n_col],
        weight [n_group*n_out, n_in, k_frame, k_row, k_col], bias [n_group*n_out]
        -> [batch, n_group*n_out, y_frame, y_row, y_col].
    Raises: ValueError if the sizes do not agree.
    Source: Ji et al. 2010, eq. 2; the rest: torch.nn.Conv3d.
    """
    padding = (padding_frame, padding_row, padding_col)
    stride = (stride_frame, stride_row, stride_col)
    return _slide(x, weight, bias, padding, stride, (y_frame, y_row, y_col), n_group)


def interpolate_nearest(x: Floats, y_row: int, y_col: int) -> NDArray[np.float64]:
    """Return images in another size, each pixel the nearest of x.

    Shapes: x [batch, n_channel, n_row, n_col] -> [batch, n_channel, y_row, y_col].
    Source: torch.nn.functional.interpolate, mode nearest-exact.
    """
    rows, cols = (
        ((2 * np.arange(size) + 1) * n) // (2 * size)
        for size, n in zip((y_row, y_col), x.shape[2:], strict=True)
    )
    return x.astype(np.float64)[:, :, rows[:, None], cols]


def interpolate_bilinear(x: Floats, y_row: int, y_col: int) -> NDArray[np.float64]:
    """Return images in another size, each pixel mixed of four of x.

    Shapes: x [batch, n_channel, n_row, n_col] -> [batch, n_channel, y_row, y_col].
    Source: torch.nn.functional.interpolate, mode bilinear, align_corners false.
    """
    rows, cols = (
        _shares(n, size) for size, n in zip((y_row, y_col), x.shape[2:], strict=True)
    )
    mixed: NDArray[np.float64] = rows @ x.astype(np.float64) @ cols.T
    return mixed


def _shares(n: int, size: int) -> NDArray[np.float64]:
    """Return what each of `size` places takes of each of `n`, [size, n]."""
    shares = np.zeros((size, n))
    for place in range(size):
        centre = max((place + 0.5) * n / size - 0.5, 0.0)
        low = int(np.floor(centre))
        shares[place, low] += 1 - (centre - low)
        shares[place, min(low + 1, n - 1)] += centre - low
    return shares


def _slide(
    x: Floats,
    weight: Floats,
    bias: Floats,
    padding: tuple[int, ...],
    stride: tuple[int, ...],
    size: tuple[int, ...],
    n_group: int,
) -> NDArray[np.float64]:
    """Return a convolution over the last dims; each of padding, stride, size an axis.

    Raises: ValueError if the sizes do not agree.
    """
    kernel = weight.shape[2:]
    wanted = tuple(
        (n + 2 * p - k) // s + 1
        for n, p, k, s in zip(x.shape[2:], padding, kernel, stride, strict=True)
    )
    if size != wanted or weight.shape[1] * n_group != x.shape[1]:
        found = f"{size} of {x.shape} and {weight.shape} in {n_group} groups"
        raise ValueError(f"expected results of {wanted}, found {found}")
    ends = [(0, 0), (0, 0), *((p, p) for p in padding)]
    padded = np.pad(x.astype(np.float64), ends)
    groups = padded.reshape(x.shape[0], n_group, weight.shape[1], *padded.shape[2:])
    kernels = weight.astype(np.float64).reshape(n_group, -1, *weight.shape[1:])
    y = np.zeros((x.shape[0], n_group, kernels.shape[1], *size))
    for tap in product(*map(range, kernel)):
        places: tuple[Any, ...] = tuple(
            slice(first, first + (count - 1) * step + 1, step)
            for first, step, count in zip(tap, stride, size, strict=True)
        )
        factor = kernels[(slice(None),) * 3 + tap]
        y += np.einsum(
            "goi,bgi...->bgo...", factor, groups[(slice(None),) * 3 + places]
        )
    shift = bias.astype(np.float64).reshape(-1, *(1,) * len(size))
    return y.reshape(x.shape[0], weight.shape[0], *size) + shift
