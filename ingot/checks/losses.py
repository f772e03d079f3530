"""Tell how far from float64 an artifact in float32 may be, by what float32 loses there.

The oracle runs in float64 and in float32 (`float32_oracle`); the difference is the loss
of each number. Another order of adding and other approximations of functions lose about
as much, however large the numbers are, and a mistake costs more.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

Array: TypeAlias = Any

# Half of the last binary digit of a float32, as a share of the number.
ULP = 2.0**-24
# Smaller numbers are not normal, and a target may make them 0.
SMALLEST = 2.0**-126
# Fewer numbers than these say little of what is usual.
FEW = 16


def loss_scale(expected: Array, loss: Array, real: Array | None) -> Array:
    """Return what float32 loses in each row.

    A row is a vector of the last dimension, or of several where one has few numbers.

    This is the largest loss of a number in the row. As one row may be right by chance,
    it is at least as large a share of the row's largest number as in a usual row of
    the tensor (the median of those that lose anything), and half of a digit.

    Rows are judged alone, because real weights give some rows numbers that are
    thousands of times larger than all others: arXiv:2402.17762.

    Shapes: expected, loss, real [..., n] -> 1 in place of each dimension of a row.
    """
    import numpy as np

    wide = np.abs(np.atleast_1d(expected))
    # What overflows in float32 says nothing, and so it allows nothing.
    lost = np.nan_to_num(np.atleast_1d(loss), nan=0.0, posinf=0.0)
    if real is not None:
        lost = np.where(real, lost, 0.0)
    axes = _axes(wide.shape)
    size, most = (x.max(axis=axes, keepdims=True) for x in (wide, lost))
    rows = (size > 0) & (most > 0)
    usual = float(np.median(most[rows] / size[rows])) if rows.any() else 0.0
    return np.maximum(most, max(usual, ULP) * size) + SMALLEST


def _axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the last dimensions that have enough numbers together."""
    first = len(shape) - 1
    while first and math.prod(shape[first:]) < FEW:
        first -= 1
    return tuple(range(first, len(shape)))
