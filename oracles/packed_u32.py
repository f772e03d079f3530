"""Define what components with weights in 32-bit words (`*_packed_u32_*`) must compute.

A word of 32 bits holds 1, 2, 4 or 8 numbers, the first in its lowest bits. Of a tile's
words for one column, the numbers in order are those of 8 rows: row n of the plain
weight is in tile n // 8, number n % 8. Integers come with scales: of a row, or of 32 of
its values, its block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Exact = NDArray[np.float64]
Floats = NDArray[np.float32] | Exact
Ids = NDArray[np.int32]
Words = NDArray[np.int32]
Plain = Callable[..., Exact]

# Rows of a tile.
TILE_N = 8
# Tiles are made plain as far as 8 MB of float64.
PLAIN_VALUES = 1 << 20


def parts(words: Words, bits: int) -> NDArray[np.uint32]:
    """Return the numbers of `bits` bits that the words hold, unsigned.

    Shapes: words [..., n] -> [..., n * 32/bits].
    """
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    found = words.astype(np.uint32)[..., None] >> shifts & np.uint32((1 << bits) - 1)
    return found.reshape(*words.shape[:-1], words.shape[-1] * 32 // bits)


def bfloats(words: Words) -> NDArray[np.float32]:
    """Return the bfloat16 numbers: the upper halves of float32.

    Shapes: words [..., n] -> [..., 2*n].
    """
    return (parts(words, 16) << np.uint32(16)).view(np.float32)


def halves(words: Words) -> NDArray[np.float16]:
    """Return the float16 numbers.

    Shapes: words [..., n] -> [..., 2*n].
    """
    return parts(words, 16).astype(np.uint16).view(np.float16)


def signed(words: Words) -> NDArray[np.int8]:
    """Return the bytes, as signed numbers.

    Shapes: words [..., n] -> [..., 4*n].
    """
    return parts(words, 8).astype(np.uint8).view(np.int8)


def nibbles(words: Words) -> NDArray[np.float64]:
    """Return the numbers of 4 bits, less 8.

    Shapes: words [...] -> [..., 8].
    """
    return parts(words[..., None], 4).astype(np.float64) - 8


def rows_of(numbers: NDArray[Any]) -> Exact:
    """Return the plain rows of tiles.

    Shapes: numbers [n_tile, ..., 8] -> [8*n_tile, product of what is between].
    """
    turned = np.moveaxis(numbers.astype(np.float64), -1, 1)
    return turned.reshape(len(numbers) * TILE_N, math.prod(numbers.shape[1:-1]))


def plain_bf16(weight: Words) -> Exact:
    """Return the plain weight. Shapes: [n_tile, n_in, 4] -> [8*n_tile, n_in]."""
    return rows_of(bfloats(weight))


def plain_f16(weight: Words) -> Exact:
    """Return the plain weight. Shapes: [n_tile, n_in, 4] -> [8*n_tile, n_in]."""
    return rows_of(halves(weight))


def plain_i8(weight: Words, weight_scale: Floats) -> Exact:
    """Return the plain weight: each row's integers times the row's scale.

    Shapes: weight [n_tile, n_in, 2], weight_scale [n_tile, 8] -> [8*n_tile, n_in].
    """
    return rows_of(signed(weight) * weight_scale.astype(np.float64)[:, None])


def plain_i8_block32(weight: Words, weight_scale: Words) -> Exact:
    """Return the plain weight: each block's integers times the block's scale.

    Shapes: weight [n_tile, n_block, 32, 2], weight_scale [n_tile, n_block, 4]
        -> [8*n_tile, 32*n_block].
    """
    scale = halves(weight_scale).astype(np.float64)
    return rows_of(signed(weight) * scale[:, :, None])


def plain_i4_block32(weight: Words, weight_scale: Words) -> Exact:
    """Return the plain weight: each block's integers, -8 to 7, times its scale.

    Shapes: weight [n_tile, n_block, 32], weight_scale [n_tile, n_block, 4]
        -> [8*n_tile, 32*n_block].
    """
    scale = halves(weight_scale).astype(np.float64)
    return rows_of(nibbles(weight) * scale[:, :, None])


def mapped(x: Floats, plain: Plain, *stored: NDArray[Any]) -> Exact:
    """Return each row of x times each row of the plain weight, summed.

    Some tiles at a time: as float64, a head of 262144 rows would take 2 GB.

    Shapes: x [batch, seq, n_in], stored [n_tile, ...] -> [batch, seq, 8*n_tile].
    """
    exact = x.astype(np.float64)
    step = max(1, PLAIN_VALUES // (x.shape[-1] * TILE_N))
    products = [
        exact @ plain(*(part[start : start + step] for part in stored)).T
        for start in range(0, len(stored[0]), step)
    ]
    return np.concatenate(products, axis=2)


def looked_up(ids: Ids, scale: float, plain: Plain, *stored: NDArray[Any]) -> Exact:
    """Return the plain table's row for every id, times the scale.

    Shapes: ids [batch, seq], stored [n_tile, ...] -> [batch, seq, n_embd].
    Raises: IndexError if an id is not in [0, 8*n_tile).
    """
    # NumPy takes a negative id from the end; the table has no such row.
    if ids.size and ids.min() < 0:
        raise IndexError(f"id out of range; expected 0 or more, found {ids.min()}")
    tiles, place = np.unique(ids // TILE_N, return_inverse=True)
    table = plain(*(part[tiles] for part in stored))
    rows: Exact = table[place.reshape(ids.shape) * TILE_N + ids % TILE_N] * scale
    return rows


def linear_packed_u32_f32(x: Floats, weight: NDArray[np.float32]) -> Exact:
    """Map each row of x by the weight, whose values are float32.

    Shapes: x [batch, seq, n_in], weight [n_tile, n_in, 8] -> [batch, seq, 8*n_tile].
    """
    return mapped(x, rows_of, weight)


def linear_bias_packed_u32_f32(
    x: Floats, weight: NDArray[np.float32], bias: Floats
) -> Exact:
    """Map each row of x by the weight, whose values are float32, and move it.

    Shapes: as `linear_packed_u32_f32`; bias [8*n_tile].
    """
    return mapped(x, rows_of, weight) + bias.astype(np.float64)


def linear_packed_u32_bf16(x: Floats, weight: Words) -> Exact:
    """Map each row of x by the weight, whose values are bfloat16.

    Shapes: x [batch, seq, n_in], weight [n_tile, n_in, 4] -> [batch, seq, 8*n_tile].
    """
    return mapped(x, plain_bf16, weight)


def linear_packed_u32_f16(x: Floats, weight: Words) -> Exact:
    """Map each row of x by the weight, whose values are float16.

    Shapes: as `linear_packed_u32_bf16`.
    """
    return mapped(x, plain_f16, weight)


def linear_packed_u32_i8(x: Floats, weight: Words, weight_scale: Floats) -> Exact:
    """Map each row of x by the weight, a scale an output.

    Shapes: x [batch, seq, n_in], weight [n_tile, n_in, 2], weight_scale [n_tile, 8]
        -> [batch, seq, 8*n_tile].
    """
    return mapped(x, plain_i8, weight, weight_scale)


def linear_packed_u32_i8_block32(
    x: Floats, weight: Words, weight_scale: Words
) -> Exact:
    """Map each row of x by the weight, a scale for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], weight [n_tile, n_block, 32, 2],
        weight_scale [n_tile, n_block, 4] -> [batch, seq, 8*n_tile].
    """
    return mapped(x, plain_i8_block32, weight, weight_scale)


def linear_packed_u32_i4_block32(
    x: Floats, weight: Words, weight_scale: Words
) -> Exact:
    """Map each row of x by the weight, a scale for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], weight [n_tile, n_block, 32],
        weight_scale [n_tile, n_block, 4] -> [batch, seq, 8*n_tile].
    """
    return mapped(x, plain_i4_block32, weight, weight_scale)


def embedding_lookup_packed_u32_bf16(weight: Words, ids: Ids, scale: float) -> Exact:
    """Return the table's row for every id, times the scale; bfloat16 values.

    Shapes: weight [n_tile, n_embd, 4], ids [batch, seq] -> [batch, seq, n_embd].
    """
    return looked_up(ids, scale, plain_bf16, weight)


def embedding_lookup_packed_u32_f16(weight: Words, ids: Ids, scale: float) -> Exact:
    """Return the table's row for every id, times the scale; float16 values.

    Shapes: as `embedding_lookup_packed_u32_bf16`.
    """
    return looked_up(ids, scale, plain_f16, weight)


def embedding_lookup_packed_u32_i8(
    weight: Words, weight_scale: Floats, ids: Ids, scale: float
) -> Exact:
    """Return the table's row for every id, times the row's scale and the scale.

    Shapes: weight [n_tile, n_embd, 2], weight_scale [n_tile, 8], ids [batch, seq]
        -> [batch, seq, n_embd].
    """
    return looked_up(ids, scale, plain_i8, weight, weight_scale)


def embedding_lookup_packed_u32_i8_block32(
    weight: Words, weight_scale: Words, ids: Ids, scale: float
) -> Exact:
    """Return the table's row for every id, times the blocks' scales and the scale.

    Shapes: weight [n_tile, n_block, 32, 2], weight_scale [n_tile, n_block, 4],
        ids [batch, seq] -> [batch, seq, 32*n_block].
    """
    return looked_up(ids, scale, plain_i8_block32, weight, weight_scale)


def embedding_lookup_packed_u32_i4_block32(
    weight: Words, weight_scale: Words, ids: Ids, scale: float
) -> Exact:
    """Return the table's row for every id, times the blocks' scales and the scale.

    Shapes: weight [n_tile, n_block, 32], weight_scale [n_tile, n_block, 4],
        ids [batch, seq] -> [batch, seq, 32*n_block].
    """
    return looked_up(ids, scale, plain_i4_block32, weight, weight_scale)
