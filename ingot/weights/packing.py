"""Pack the rows of a matrix as a layout stores them.

Rows are taken in tiles of `tile_n`, and a tile is stored column by column: element
(row, column) is at [row / tile_n, column, row % tile_n]. One vector load then reads
`tile_n` rows of one column, and a product with a vector reads the matrix sequentially.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from ingot.weights.quantise import SCHEMES, Quantised, quantise, quantise_rows

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used."""

_WORD_ROWS = 8


def quantised(rows: Array, scheme: str, tile_n: int) -> dict[str, bytes]:
    """Return the bytes of each part, by the kernel's argument.

    Shapes: rows [n * tile_n, columns], float32; n groups.

    Raises: ValueError for an unknown scheme, or a `tile_n` that it does not support.
    """
    if scheme == "i8":
        codes, scale = quantise_rows(rows)
        parts = {"weight": codes, "weight_scale": scale[:, None]}
    elif scheme in SCHEMES:
        parts = quantise(rows, scheme)
    else:
        raise ValueError(f"no packing named '{scheme}'")
    return packed(parts, scheme, tile_n)


def packed(parts: Quantised, scheme: str, tile_n: int) -> dict[str, bytes]:
    """Return the bytes of codes and scales, by the kernel's argument.

    Of codes below 8 bits, the lower 4 are words of 8 rows; what is above is
    `weight_high`.

    Shapes: parts [n * tile_n, columns or groups of columns]; n groups.

    Raises: ValueError for a `tile_n` that the scheme does not support.
    """
    bits = SCHEMES[scheme].bits if scheme in SCHEMES else 8
    found = {name: grouped(values, tile_n) for name, values in parts.items()}
    if bits == 8:
        return found
    if tile_n != _WORD_ROWS:
        message = f"words of {bits}-bit codes have {_WORD_ROWS} rows"
        raise ValueError(f"{message}, the layout {tile_n}")
    codes = parts["weight"]
    found["weight"] = _side_by_side(codes & 15, 4)
    if bits > 4:
        found["weight_high"] = _side_by_side(codes >> 4, bits - 4)
    return found


def grouped(rows: Array, tile_n: int) -> bytes:
    """Return the values of a matrix in the order of the layout.

    Shapes: rows [n * tile_n, columns], of any element type.
    """
    groups = rows.reshape(-1, tile_n, rows.shape[1])
    return bytes(groups.swapaxes(1, 2).tobytes())


def _side_by_side(codes: Array, bits: int) -> bytes:
    """Return a number of 8 * bits bits for each column of a group of 8 rows.

    Row r of the group is in bits r * bits and up.

    Shapes: codes [n * 8, columns], unsigned.
    """
    import numpy as np

    kind = np.dtype(f"<u{bits}")
    groups = codes.astype(kind).reshape(-1, _WORD_ROWS, codes.shape[1])
    places = np.arange(0, _WORD_ROWS * bits, bits).astype(kind)[:, None]
    joined: Array = np.bitwise_or.reduce(groups << places, axis=1)
    return bytes(joined.astype(kind).tobytes())
