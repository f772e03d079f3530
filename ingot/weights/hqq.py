"""Choose scale and minimum of each block by half-quadratic quantisation.

Rounding to nearest spreads the codes from the least to the largest value of a block, so
one outlier costs all others precision. HQQ minimises a norm below 1 of the errors
instead, which forgives a few large ones, and needs no data.

Source: Badri & Shaji 2023, "Half-Quadratic Quantization of Large Machine Learning
    Models", mobiusml.github.io/hqq_blog. There the scale is fixed and only the zero is
    fitted; here both are, by least squares.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used."""

NORM = 0.7
ITERATIONS = 20
# The weight of the quadratic term, relative to the step of a block, and its growth.
BETA, KAPPA = 10.0, 1.01
# Values that are fitted at once: with all that is made of them, what a processor's
# cache holds. A whole embedding at once took twice as long.
AT_ONCE = 1 << 15


def fit(blocks: Array, largest: int) -> tuple[Array, Array]:
    """Return scale and minimum of each block: value = code * scale + minimum.

    Codes are 0 to `largest`. Of all iterations, each block keeps the one whose errors
    have the smallest norm, with both numbers as float16; one that exceeds it is
    infinite.

    Shapes: blocks [n, blocks, columns], float32 -> float16 [n, blocks] twice.
    """
    import numpy as np

    step = max(1, AT_ONCE // blocks[0].size)
    some = (blocks[first : first + step] for first in range(0, len(blocks), step))
    scales, minima = zip(*(_fit(rows, largest) for rows in some), strict=True)
    return np.concatenate(scales), np.concatenate(minima)


def _fit(blocks: Array, largest: int) -> tuple[Array, Array]:
    """Return scale and minimum of so few blocks that a processor's cache holds them."""
    import numpy as np

    least = blocks.min(axis=2, keepdims=True)
    scale = (blocks.max(axis=2, keepdims=True) - least) / np.float32(largest)
    best, smallest = (_half(scale), _half(least)), np.full_like(scale, np.inf)
    beta = BETA
    for _ in range(ITERATIONS):
        stored = _half(scale), _half(least)
        codes, errors = _round(blocks, *stored, largest)
        step = np.where(scale > 0, scale, np.float32(1))
        # The errors in steps, and these to the power of the norm less one.
        size = np.maximum(np.abs(errors) / step, np.float32(1e-12))
        power = size ** (NORM - 1)
        norm = (size * power).sum(axis=2, keepdims=True) * step**NORM
        better = norm < smallest
        smallest = np.where(better, norm, smallest)
        best = (
            np.where(better, stored[0], best[0]),
            np.where(better, stored[1], best[1]),
        )
        # What the norm forgives, by generalised soft thresholding, is no error.
        forgiven = step * np.maximum(size - power / np.float32(beta), 0)
        scale, least = _line(codes, blocks - np.copysign(forgiven, errors), scale)
        beta *= KAPPA
    return best[0][:, :, 0], best[1][:, :, 0]


def _round(
    blocks: Array, scale: Array, least: Array, largest: int
) -> tuple[Array, Array]:
    """Return the codes nearest to the values, and how far these are from them."""
    import numpy as np

    wide, start = scale.astype(np.float32), least.astype(np.float32)
    divisor = np.where(wide > 0, wide, np.float32(1))
    codes = np.rint((blocks - start) / divisor).clip(0, largest)
    return codes, blocks - (codes * wide + start)


def _line(codes: Array, target: Array, scale: Array) -> tuple[Array, Array]:
    """Return slope and intercept of the targets over the codes, by least squares."""
    import numpy as np

    middle = codes.mean(axis=2, keepdims=True)
    mean = target.mean(axis=2, keepdims=True)
    spread = ((codes - middle) ** 2).sum(axis=2, keepdims=True)
    product = ((codes - middle) * (target - mean)).sum(axis=2, keepdims=True)
    slope = product / np.where(spread > 0, spread, 1)
    slope = np.where(slope > 0, slope, scale).astype(np.float32)
    return slope, (mean - slope * middle).astype(np.float32)


def _half(values: Array) -> Array:
    import numpy as np

    with np.errstate(over="ignore"):
        return values.astype(np.float16)
