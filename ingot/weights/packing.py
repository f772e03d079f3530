"""Pack the rows of a matrix as a layout stores them.

Rows are taken in tiles of `tile_n`, and a tile is stored column by column: element
(row, column) is at [row / tile_n, column, row % tile_n]. One vector load then reads
`tile_n` rows of one column, and a product with a vector reads the matrix sequentially.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used."""

# Codes are symmetric: -128 would have no counterpart.
I8_LIMIT = 127
I4_LIMIT = 7
# Columns that share a scale.
BLOCK = 32


def quantised(rows: Array, scheme: str, tile_n: int) -> dict[str, bytes]:
    """Return the bytes of each part, by the kernel's argument.

    Shapes: rows [n * tile_n, columns], float32; n groups.

    Raises: ValueError for an unknown scheme, or a `tile_n` that it does not support.
    """
    if scheme == "i8":
        codes, scale = quantise_rows(rows)
        return {
            "weight": grouped(codes, tile_n),
            "weight_scale": scale.astype("<f4").tobytes(),
        }
    if scheme == "i8_block32":
        codes, scale = quantise_blocks(rows, I8_LIMIT)
        return {
            "weight": grouped(codes, tile_n),
            "weight_scale": grouped(scale, tile_n),
        }
    if scheme == "i4_block32":
        codes, scale = quantise_blocks(rows, I4_LIMIT)
        return {"weight": words(codes, tile_n), "weight_scale": grouped(scale, tile_n)}
    raise ValueError(f"no packing named '{scheme}'")


def quantise_rows(rows: Array) -> tuple[Array, Array]:
    """Return codes and the scale of each row: row = codes * scale.

    Shapes: rows [n, columns] -> int8 [n, columns], float32 [n].
    Source: Jacob et al. 2018, arXiv:1712.05877, section 2.1, symmetric.
    """
    import numpy as np

    scale = np.abs(rows).max(axis=1) / np.float32(I8_LIMIT)
    # Any scale suits a row of zeros.
    divisor = np.where(scale > 0, scale, np.float32(1))
    # A scale below the least normal number may be rounded down by half.
    codes = np.rint(rows / divisor[:, None]).clip(-I8_LIMIT, I8_LIMIT)
    return codes.astype(np.int8), divisor


def quantise_blocks(rows: Array, limit: int) -> tuple[Array, Array]:
    """Return codes up to `limit` and the scale of each block of 32 columns.

    Shapes: rows [n, columns] -> int8 [n, columns], float16 [n, columns / 32]. A scale
        that exceeds float16 becomes infinite.

    Source: ggml's q8_0; here the codes follow the scale as it is stored.
    """
    import numpy as np

    blocks = rows.reshape(len(rows), -1, BLOCK)
    with np.errstate(over="ignore"):
        scale = (np.abs(blocks).max(axis=2) / np.float32(limit)).astype(np.float16)
    # Blocks of zeros, or of numbers below the scale's type, are zeros.
    divisor = np.where(scale > 0, scale, np.float16(1)).astype(np.float32)
    codes = np.rint(blocks / divisor[:, :, None]).clip(-limit, limit)
    return codes.astype(np.int8).reshape(rows.shape), scale


def grouped(rows: Array, tile_n: int) -> bytes:
    """Return the values of a matrix in the order of the layout.

    Shapes: rows [n * tile_n, columns], of any element type.
    """
    groups = rows.reshape(-1, tile_n, rows.shape[1])
    return bytes(groups.swapaxes(1, 2).tobytes())


def words(codes: Array, tile_n: int) -> bytes:
    """Return 4-bit codes in the order of the layout, a word per column of a group.

    Row r of a group is in bits 4*r and up, with 8 added.

    Shapes: codes [n * 8, columns], int8, -8 to 7.
    """
    import numpy as np

    if tile_n != 8:
        raise ValueError(f"words of 4-bit codes have 8 rows, the layout {tile_n}")
    groups = (codes + 8).astype("<u4").reshape(-1, tile_n, codes.shape[1])
    places = np.arange(0, 32, 4, dtype="<u4")[:, None]
    packed: Array = np.bitwise_or.reduce(groups << places, axis=1)
    return bytes(packed.astype("<u4").tobytes())
