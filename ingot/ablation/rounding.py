"""Round numbers to a narrower format; the results keep their wide type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from ingot.weights.quantise import SCHEMES as BLOCK_SCHEMES
from ingot.weights.quantise import dequantise, quantise, quantise_rows

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used."""

# The rows of a large table are rounded in parts of this many values: 32 MB each.
_CHUNK = 1 << 22
_MX_BLOCK = 32

_BF16_DIGITS, _BF16_LEAST = 8, -126
_BF16_MAX = (2 - 2.0**-7) * 2.0**127
_E4M3_DIGITS, _E4M3_LEAST = 4, -6
_E4M3_MAX = 448.0
# 256 is the largest power of two in E4M3.
_E4M3_MAX_EXPONENT = 8
_E8M0_LEAST, _E8M0_MOST = -127, 127


def bf16(x: Array) -> Array:
    """Return x in bfloat16: to nearest, ties to even; overflow becomes infinity.

    Shapes: any, of any float type; the result has the same.
    """
    import numpy as np

    near = _nearest(x, _BF16_DIGITS, _BF16_LEAST)
    near[np.abs(near) > _BF16_MAX] *= np.inf
    return near


def f16(x: Array) -> Array:
    """Return x in IEEE binary16; overflow becomes infinity."""
    import numpy as np

    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(x.dtype)


def f32(x: Array) -> Array:
    """Return x in IEEE binary32; overflow becomes infinity."""
    import numpy as np

    with np.errstate(over="ignore"):
        return x.astype(np.float32).astype(x.dtype)


def e4m3(x: Array) -> Array:
    """Return x in E4M3: to nearest, ties to even; values above 448 become 448.

    Source: OCP 8-bit Floating Point Specification 1.0, section 5; saturation as MX
        v1.0, section 6.3, requires.
    """
    import numpy as np

    return np.clip(_nearest(x, _E4M3_DIGITS, _E4M3_LEAST), -_E4M3_MAX, _E4M3_MAX)


def mxfp8(rows: Array) -> Array:
    """Return a matrix whose rows are MXFP8: E4M3 with one scale per 32 columns.

    The scale is the largest power of two in the block divided by that of E4M3, within
    E8M0. A block with a number that is not finite is all NaN, because its scale is.

    Shapes: rows [n, columns] -> the same; a last block may be shorter.
    Source: OCP Microscaling Formats (MX) Specification v1.0, sections 5.2 and 6.3.
    """
    import numpy as np

    blocks, columns = _blocks(rows)
    largest = np.abs(blocks).max(axis=2, keepdims=True)
    # frexp's fraction is in [1/2, 1): the exponent of the power of two below is less 1.
    exponent = np.frexp(largest)[1] - 1 - _E4M3_MAX_EXPONENT
    # Any scale suits a block of zeros.
    exponent = np.clip(exponent, _E8M0_LEAST, _E8M0_MOST)
    near = np.ldexp(e4m3(np.ldexp(blocks, -exponent)), exponent)
    near = np.where(np.isfinite(largest), near, np.nan).astype(rows.dtype)
    return near.reshape(len(rows), -1)[:, :columns]


def i8(rows: Array) -> Array:
    """Return a matrix whose rows are 8-bit integers, each row with an f32 scale."""
    codes, scale = quantise_rows(rows)
    return (codes * scale[:, None]).astype(rows.dtype)


def in_blocks(rows: Array, scheme: str) -> Array:
    """Return a matrix of integers with scales for blocks of columns."""
    import numpy as np

    columns = rows.shape[1]
    spare = -columns % BLOCK_SCHEMES[scheme].width
    filled = np.pad(rows, ((0, 0), (0, spare))).astype(np.float32)
    return dequantise(quantise(filled, scheme), scheme)[:, :columns].astype(rows.dtype)


SCHEMES: dict[str, Callable[[Array], Array]] = {
    "f32": f32,
    "bf16": bf16,
    "f16": f16,
    "i8": i8,
    **{name: partial(in_blocks, scheme=name) for name in BLOCK_SCHEMES},
    "mxfp8": mxfp8,
}
"""By the name in a manifest or on a command line."""


def rounded(rows: Array, scheme: str) -> Array:
    """Return a matrix as it is read back after a scheme stored it.

    Shapes: rows [n, columns], float32 -> the same.
    """
    import numpy as np

    result = np.empty_like(rows)
    step = max(1, _CHUNK // rows.shape[1])
    for first in range(0, len(rows), step):
        chunk = np.asarray(rows[first : first + step])
        result[first : first + step] = SCHEMES[scheme](chunk)
    return result


def _nearest(x: Array, digits: int, least: int) -> Array:
    """Return x with that many binary digits; fewer below 2**least."""
    import numpy as np

    # NaN stays NaN, and overflow becomes infinity.
    with np.errstate(over="ignore", invalid="ignore"):
        _, exponent = np.frexp(x)
        last = np.maximum(exponent, least + 1) - digits
        return np.asarray(np.ldexp(np.rint(np.ldexp(x, -last)), last))


def _blocks(rows: Array) -> tuple[Array, int]:
    """Return the rows in blocks, the last padded with zeros, and the real columns."""
    import numpy as np

    columns = rows.shape[1]
    filled = np.pad(rows, ((0, 0), (0, -columns % _MX_BLOCK)))
    return filled.reshape(len(rows), -1, _MX_BLOCK), columns
