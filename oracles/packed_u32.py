"""Define what components with weights in 32-bit words (`*_packed_u32_*`) must compute.

A word of 32 bits holds 1, 2, 4 or 8 numbers, the first in its lowest bits. Of a tile's
words for one column, the numbers in order are those of 8 rows: row n of the plain
weight is in tile n // 8, number n % 8. Integers come with scales: of a row, or of 32 of
its values, its block.

q4_1, q5_0, q4_k and q6_k are block formats of ggml (ggml-org/ggml, src/ggml-quants.c),
whose codes and scales are here in other places. The lower 4 bits of the codes are one
word for 8 rows, and what is above is in `weight_high`, 1 or 2 bits for each row.
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


def lower(words: Words) -> NDArray[np.float64]:
    """Return the numbers of 4 bits. Shapes: words [...] -> [..., 8]."""
    return parts(words[..., None], 4).astype(np.float64)


def by_tile(numbers: NDArray[Any]) -> Exact:
    """Return the numbers of 8 rows after each other.

    Shapes: numbers [n_tile, ...] -> [n_tile, n, 8].
    """
    count = math.prod(numbers.shape[1:]) // TILE_N
    return numbers.astype(np.float64).reshape(len(numbers), count, TILE_N)


def spread(numbers: NDArray[Any], columns: int) -> Exact:
    """Return each number for so many columns.

    Shapes: numbers [n_tile, ..., 8] -> [n_tile, n*columns, 8], of n groups.
    """
    return np.repeat(by_tile(numbers), columns, axis=1)


def tiles_of(words: Words) -> Exact:
    """Return the lower 4 bits, tile by tile.

    Shapes: words [n_tile, ...] -> [n_tile, n, 8], of n words in a tile.
    """
    return by_tile(lower(words))


def plain_q4_1(weight: Words, weight_scale: Words, weight_min: Words) -> Exact:
    """Return the plain weight: codes, 0 to 15, times the block's scale, plus minimum.

    Shapes: weight [n_tile, n_block, 32], weight_scale and weight_min
        [n_tile, n_block, 4] -> [8*n_tile, 32*n_block].
    """
    scale, least = spread(halves(weight_scale), 32), spread(halves(weight_min), 32)
    return rows_of(tiles_of(weight) * scale + least)


def plain_q5_0(weight: Words, weight_high: Words, weight_scale: Words) -> Exact:
    """Return the plain weight: codes, -16 to 15, times the block's scale.

    Shapes: weight [n_tile, n_block, 32], weight_high [n_tile, n_block, 8],
        weight_scale [n_tile, n_block, 4] -> [8*n_tile, 32*n_block].
    """
    fifth = by_tile(parts(weight_high, 1))
    codes = tiles_of(weight) + 16.0 * fifth - 16
    return rows_of(codes * spread(halves(weight_scale), 32))


def plain_q4_k(
    weight: Words,
    weight_scale: Words,
    weight_min: Words,
    weight_super_scale: Words,
    weight_super_min: Words,
) -> Exact:
    """Return the plain weight: codes, 0 to 15, times a scale, less a minimum.

    Those of a block are integers times the scale, or the minimum, of 8 blocks.

    Shapes: weight [n_tile, n_super, 8, 32], weight_scale and weight_min
        [n_tile, n_super, 8, 2], weight_super_scale and weight_super_min
        [n_tile, n_super, 4] -> [8*n_tile, 256*n_super].
    """
    scale = spread(halves(weight_super_scale), 256) * spread(signed(weight_scale), 32)
    least = spread(halves(weight_super_min), 256) * spread(signed(weight_min), 32)
    return rows_of(tiles_of(weight) * scale - least)


def plain_q6_k(
    weight: Words, weight_high: Words, weight_scale: Words, weight_super_scale: Words
) -> Exact:
    """Return the plain weight: codes, -32 to 31, times a scale.

    The scale of 16 inputs is an integer times the scale of 256.

    Shapes: weight [n_tile, n_super, 16, 16], weight_high [n_tile, n_super, 16, 8],
        weight_scale [n_tile, n_super, 16, 2], weight_super_scale
        [n_tile, n_super, 4] -> [8*n_tile, 256*n_super].
    """
    pairs = by_tile(parts(weight_high, 2))
    codes = tiles_of(weight) + 16.0 * pairs - 32
    scale = spread(halves(weight_super_scale), 256) * spread(signed(weight_scale), 16)
    return rows_of(codes * scale)


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


def linear_packed_u32_q4_1(
    x: Floats,
    weight: Words,
    weight_scale: Words,
    weight_min: Words,
) -> Exact:
    """Map each row of x by the weight, scale and minimum for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], the weight's as of `plain_q4_1`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(x, plain_q4_1, weight, weight_scale, weight_min)


def linear_packed_u32_q5_0(
    x: Floats,
    weight: Words,
    weight_high: Words,
    weight_scale: Words,
) -> Exact:
    """Map each row of x by the weight, a scale for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], the weight's as of `plain_q5_0`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(x, plain_q5_0, weight, weight_high, weight_scale)


def linear_packed_u32_q4_k(
    x: Floats,
    weight: Words,
    weight_scale: Words,
    weight_min: Words,
    weight_super_scale: Words,
    weight_super_min: Words,
) -> Exact:
    """Map each row of x by the weight, scale and minimum for 32 inputs of an output.

    Shapes: x [batch, seq, 256*n_super], the weight's as of `plain_q4_k`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(
        x,
        plain_q4_k,
        weight,
        weight_scale,
        weight_min,
        weight_super_scale,
        weight_super_min,
    )


def linear_packed_u32_q6_k(
    x: Floats,
    weight: Words,
    weight_high: Words,
    weight_scale: Words,
    weight_super_scale: Words,
) -> Exact:
    """Map each row of x by the weight, a scale for 16 inputs of an output.

    Shapes: x [batch, seq, 256*n_super], the weight's as of `plain_q6_k`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(x, plain_q6_k, weight, weight_high, weight_scale, weight_super_scale)


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


def embedding_lookup_packed_u32_q4_1(
    weight: Words,
    weight_scale: Words,
    weight_min: Words,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `plain_q4_1`, ids [batch, seq]
        -> [batch, seq, 32*n_block].
    """
    return looked_up(ids, scale, plain_q4_1, weight, weight_scale, weight_min)


def embedding_lookup_packed_u32_q5_0(
    weight: Words,
    weight_high: Words,
    weight_scale: Words,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `plain_q5_0`, ids [batch, seq]
        -> [batch, seq, 32*n_block].
    """
    return looked_up(ids, scale, plain_q5_0, weight, weight_high, weight_scale)


def embedding_lookup_packed_u32_q4_k(
    weight: Words,
    weight_scale: Words,
    weight_min: Words,
    weight_super_scale: Words,
    weight_super_min: Words,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `plain_q4_k`, ids [batch, seq]
        -> [batch, seq, 256*n_super].
    """
    return looked_up(
        ids,
        scale,
        plain_q4_k,
        weight,
        weight_scale,
        weight_min,
        weight_super_scale,
        weight_super_min,
    )


def embedding_lookup_packed_u32_q6_k(
    weight: Words,
    weight_high: Words,
    weight_scale: Words,
    weight_super_scale: Words,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `plain_q6_k`, ids [batch, seq]
        -> [batch, seq, 256*n_super].
    """
    return looked_up(
        ids, scale, plain_q6_k, weight, weight_high, weight_scale, weight_super_scale
    )
