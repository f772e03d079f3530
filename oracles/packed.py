"""Define what components with packed weights (`*_packed*`) must compute.

A packed weight is [n_tile, n_in, tile_n]: row n of the plain weight [n_out, n_in] is in
tile n // tile_n, row n % tile_n of it, and n_out = n_tile*tile_n. One of integers comes
with scales: of a row, or of 32 of its values, its block. Of 4-bit integers, the 8 that
an input has in a tile are one word, 8 added to each. bfloat16 is that of ml_dtypes.

q4_1, q5_0, q4_k and q6_k are block formats of ggml (ggml-org/ggml, src/ggml-quants.c),
whose codes and scales are here in other places. The lower 4 bits of the codes are
words, and what is above is in `weight_high`: of row v, the bits from v*n up, if n bits
are above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Exact = NDArray[np.float64]
Floats = NDArray[np.float32] | Exact
Halves = NDArray[np.float16]
Bytes = NDArray[np.int8]
Shorts = NDArray[np.int16]
Ids = NDArray[np.int32]
Words = NDArray[np.int32]
Unpack = Callable[..., Exact]

# Tiles are unpacked as far as 1 MB of float64: what a processor's cache holds is read
# again by the product 2 to 4 times as fast as from memory.
UNPACKED_VALUES = 1 << 17


def unpacked(weight: NDArray[Any]) -> Exact:
    """Return the plain weight of a packed one.

    Shapes: weight [n_tile, n_in, tile_n] -> [n_tile*tile_n, n_in].
    """
    n_tile, n_in, tile_n = weight.shape
    rows = weight.transpose(0, 2, 1).astype(np.float64, order="C")
    return rows.reshape(n_tile * tile_n, n_in)


def unpacked_i8(weight: Bytes, weight_scale: Floats) -> Exact:
    """Return the plain weight: each row's integers times the row's scale.

    Shapes: weight [n_tile, n_in, tile_n], weight_scale [n_tile, tile_n]
        -> [n_tile*tile_n, n_in].
    """
    return unpacked(weight) * weight_scale.astype(np.float64).reshape(-1, 1)


def unpacked_i8_block32(weight: Bytes, weight_scale: Halves) -> Exact:
    """Return the plain weight: each block's integers times the block's scale.

    Shapes: weight [n_tile, n_block, 32, tile_n], weight_scale [n_tile, n_block, tile_n]
        -> [n_tile*tile_n, 32*n_block].
    """
    n_tile, n_block, block, tile_n = weight.shape
    scales = np.repeat(weight_scale.astype(np.float64), block, axis=1)
    return unpacked(weight.reshape(n_tile, n_block * block, tile_n)) * unpacked(scales)


def unpacked_i4_block32(weight: Words, weight_scale: Halves) -> Exact:
    """Return the plain weight: each block's integers, -8 to 7, times its scale.

    Shapes: weight [n_tile, n_block, 32], weight_scale [n_tile, n_block, 8]
        -> [8*n_tile, 32*n_block].
    """
    halves = np.stack([(weight >> bit & 15) - 8 for bit in range(0, 32, 4)], axis=-1)
    return unpacked_i8_block32(halves.astype(np.int8), weight_scale)


def in_columns(weight: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers of each tile in a column.

    Shapes: weight [n_tile, ...] -> [n_tile, n, 1].
    """
    count = math.prod(weight.shape[1:])
    return weight.reshape(len(weight), count, 1).astype(np.int64)


def nibbles(weight: Words) -> NDArray[np.int64]:
    """Return the 4 bits that each row has in a word, 0 to 15.

    Shapes: weight [n_tile, ...] -> [n_tile, n, 8], of n words in a tile.
    """
    return in_columns(weight) >> np.arange(0, 32, 4) & 15


def by_row(tiles: NDArray[Any], columns: int) -> Exact:
    """Return what groups of columns have, for every column of every row.

    Shapes: tiles [n_tile, ..., 8] -> [8*n_tile, n*columns], of n groups.
    """
    groups = tiles.reshape(len(tiles), math.prod(tiles.shape[1:-1]), 8)
    return np.repeat(unpacked(groups), columns, axis=1)


def unpacked_q4_1(weight: Words, weight_scale: Halves, weight_min: Halves) -> Exact:
    """Return the plain weight: codes, 0 to 15, times the block's scale, plus minimum.

    Shapes: weight [n_tile, n_block, 32], weight_scale and weight_min
        [n_tile, n_block, 8] -> [8*n_tile, 32*n_block].
    """
    codes = unpacked(nibbles(weight))
    return codes * by_row(weight_scale, 32) + by_row(weight_min, 32)


def unpacked_q5_0(weight: Words, weight_high: Bytes, weight_scale: Halves) -> Exact:
    """Return the plain weight: codes, -16 to 15, times the block's scale.

    Shapes: weight and weight_high [n_tile, n_block, 32],
        weight_scale [n_tile, n_block, 8] -> [8*n_tile, 32*n_block].
    """
    fifth = in_columns(weight_high) >> np.arange(8) & 1
    codes = unpacked(nibbles(weight) + 16 * fifth - 16)
    return codes * by_row(weight_scale, 32)


def unpacked_q4_k(
    weight: Words,
    weight_scale: Bytes,
    weight_min: Bytes,
    weight_super_scale: Halves,
    weight_super_min: Halves,
) -> Exact:
    """Return the plain weight: codes, 0 to 15, times a scale, less a minimum.

    Those of a block are integers times the scale, or the minimum, of 8 blocks.

    Shapes: weight [n_tile, n_super, 8, 32], weight_scale and weight_min
        [n_tile, n_super, 8, 8], weight_super_scale and weight_super_min
        [n_tile, n_super, 8] -> [8*n_tile, 256*n_super].
    """
    scale = by_row(weight_super_scale, 256) * by_row(weight_scale, 32)
    least = by_row(weight_super_min, 256) * by_row(weight_min, 32)
    return unpacked(nibbles(weight)) * scale - least


def unpacked_q6_k(
    weight: Words,
    weight_high: Shorts,
    weight_scale: Bytes,
    weight_super_scale: Halves,
) -> Exact:
    """Return the plain weight: codes, -32 to 31, times a scale.

    The scale of 16 inputs is an integer times the scale of 256.

    Shapes: weight and weight_high [n_tile, n_super, 16, 16], weight_scale
        [n_tile, n_super, 16, 8], weight_super_scale [n_tile, n_super, 8]
        -> [8*n_tile, 256*n_super].
    """
    pairs = in_columns(weight_high) >> np.arange(0, 16, 2) & 3
    codes = nibbles(weight) + 16 * pairs - 32
    scale = by_row(weight_super_scale, 256) * by_row(weight_scale, 16)
    return unpacked(codes) * scale


def mapped(x: Floats, unpack: Unpack, *parts: NDArray[Any]) -> Exact:
    """Return each row of x times each row of the plain weight, summed.

    Some tiles at a time: as float64, a head of 262144 rows would take 2 GB.

    Shapes: x [batch, seq, n_in], parts [n_tile, ..., tile_n]
        -> [batch, seq, n_tile*tile_n].
    """
    exact = x.astype(np.float64)
    step = max(1, UNPACKED_VALUES // parts[0][0].size)
    products = [
        exact @ unpack(*(part[start : start + step] for part in parts)).T
        for start in range(0, len(parts[0]), step)
    ]
    return np.concatenate(products, axis=2)


def looked_up(
    ids: Ids, scale: float, unpack: Unpack, *parts: NDArray[Any], tile_n: int = 0
) -> Exact:
    """Return the plain table's row for every id, times the scale.

    Shapes: ids [batch, seq], parts [n_tile, ..., tile_n] -> [batch, seq, n_embd].
    Raises: IndexError if an id is not in [0, n_tile*tile_n).
    """
    # NumPy takes a negative id from the end; the table has no such row.
    if ids.size and ids.min() < 0:
        raise IndexError(f"id out of range; expected 0 or more, found {ids.min()}")
    tile_n = tile_n or parts[0].shape[-1]
    tiles, place = np.unique(ids // tile_n, return_inverse=True)
    plain = unpack(*(part[tiles] for part in parts))
    rows: Exact = plain[place.reshape(ids.shape) * tile_n + ids % tile_n] * scale
    return rows


def linear_packed(x: Floats, weight: NDArray[Any]) -> Exact:
    """Map each row of x by the weight.

    Shapes: x [batch, seq, n_in], weight [n_tile, n_in, tile_n]
        -> [batch, seq, n_tile*tile_n].
    """
    return mapped(x, unpacked, weight)


def linear_packed_i8(x: Floats, weight: Bytes, weight_scale: Floats) -> Exact:
    """Map each row of x by the weight, a scale an output.

    Shapes: x [batch, seq, n_in], weight [n_tile, n_in, tile_n],
        weight_scale [n_tile, tile_n] -> [batch, seq, n_tile*tile_n].
    """
    return mapped(x, unpacked_i8, weight, weight_scale)


def linear_packed_i8_block32(x: Floats, weight: Bytes, weight_scale: Halves) -> Exact:
    """Map each row of x by the weight, a scale for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], weight [n_tile, n_block, 32, tile_n],
        weight_scale [n_tile, n_block, tile_n] -> [batch, seq, n_tile*tile_n].
    """
    return mapped(x, unpacked_i8_block32, weight, weight_scale)


def linear_packed_i4_block32(x: Floats, weight: Words, weight_scale: Halves) -> Exact:
    """Map each row of x by the weight, a scale for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], weight [n_tile, n_block, 32],
        weight_scale [n_tile, n_block, 8] -> [batch, seq, 8*n_tile].
    """
    return mapped(x, unpacked_i4_block32, weight, weight_scale)


def linear_packed_q4_1(
    x: Floats,
    weight: Words,
    weight_scale: Halves,
    weight_min: Halves,
) -> Exact:
    """Map each row of x by the weight, scale and minimum for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], the weight's as of `unpacked_q4_1`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(x, unpacked_q4_1, weight, weight_scale, weight_min)


def linear_packed_q5_0(
    x: Floats,
    weight: Words,
    weight_high: Bytes,
    weight_scale: Halves,
) -> Exact:
    """Map each row of x by the weight, a scale for 32 inputs of an output.

    Shapes: x [batch, seq, 32*n_block], the weight's as of `unpacked_q5_0`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(x, unpacked_q5_0, weight, weight_high, weight_scale)


def linear_packed_q4_k(
    x: Floats,
    weight: Words,
    weight_scale: Bytes,
    weight_min: Bytes,
    weight_super_scale: Halves,
    weight_super_min: Halves,
) -> Exact:
    """Map each row of x by the weight, scale and minimum for 32 inputs of an output.

    Shapes: x [batch, seq, 256*n_super], the weight's as of `unpacked_q4_k`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(
        x,
        unpacked_q4_k,
        weight,
        weight_scale,
        weight_min,
        weight_super_scale,
        weight_super_min,
    )


def linear_packed_q6_k(
    x: Floats,
    weight: Words,
    weight_high: Shorts,
    weight_scale: Bytes,
    weight_super_scale: Halves,
) -> Exact:
    """Map each row of x by the weight, a scale for 16 inputs of an output.

    Shapes: x [batch, seq, 256*n_super], the weight's as of `unpacked_q6_k`
        -> [batch, seq, 8*n_tile].
    """
    return mapped(
        x, unpacked_q6_k, weight, weight_high, weight_scale, weight_super_scale
    )


def embedding_lookup_packed(weight: NDArray[Any], ids: Ids, scale: float) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: weight [n_tile, n_embd, tile_n], ids [batch, seq] -> [batch, seq, n_embd].
    """
    return looked_up(ids, scale, unpacked, weight)


def embedding_lookup_packed_i8(
    weight: Bytes, weight_scale: Floats, ids: Ids, scale: float
) -> Exact:
    """Return the table's row for every id, times the row's scale and the scale.

    Shapes: weight [n_tile, n_embd, tile_n], weight_scale [n_tile, tile_n],
        ids [batch, seq] -> [batch, seq, n_embd].
    """
    return looked_up(ids, scale, unpacked_i8, weight, weight_scale)


def embedding_lookup_packed_i8_block32(
    weight: Bytes, weight_scale: Halves, ids: Ids, scale: float
) -> Exact:
    """Return the table's row for every id, times the blocks' scales and the scale.

    Shapes: weight [n_tile, n_block, 32, tile_n],
        weight_scale [n_tile, n_block, tile_n], ids [batch, seq]
        -> [batch, seq, 32*n_block].
    """
    return looked_up(ids, scale, unpacked_i8_block32, weight, weight_scale)


def embedding_lookup_packed_i4_block32(
    weight: Words, weight_scale: Halves, ids: Ids, scale: float
) -> Exact:
    """Return the table's row for every id, times the blocks' scales and the scale.

    Shapes: weight [n_tile, n_block, 32], weight_scale [n_tile, n_block, 8],
        ids [batch, seq] -> [batch, seq, 32*n_block].
    """
    return looked_up(ids, scale, unpacked_i4_block32, weight, weight_scale, tile_n=8)


def embedding_lookup_packed_q4_1(
    weight: Words,
    weight_scale: Halves,
    weight_min: Halves,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `unpacked_q4_1`, ids [batch, seq]
        -> [batch, seq, 32*n_block].
    """
    return looked_up(
        ids, scale, unpacked_q4_1, weight, weight_scale, weight_min, tile_n=8
    )


def embedding_lookup_packed_q5_0(
    weight: Words,
    weight_high: Bytes,
    weight_scale: Halves,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `unpacked_q5_0`, ids [batch, seq]
        -> [batch, seq, 32*n_block].
    """
    return looked_up(
        ids, scale, unpacked_q5_0, weight, weight_high, weight_scale, tile_n=8
    )


def embedding_lookup_packed_q4_k(
    weight: Words,
    weight_scale: Bytes,
    weight_min: Bytes,
    weight_super_scale: Halves,
    weight_super_min: Halves,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `unpacked_q4_k`, ids [batch, seq]
        -> [batch, seq, 256*n_super].
    """
    return looked_up(
        ids,
        scale,
        unpacked_q4_k,
        weight,
        weight_scale,
        weight_min,
        weight_super_scale,
        weight_super_min,
        tile_n=8,
    )


def embedding_lookup_packed_q6_k(
    weight: Words,
    weight_high: Shorts,
    weight_scale: Bytes,
    weight_super_scale: Halves,
    ids: Ids,
    scale: float,
) -> Exact:
    """Return the table's row for every id, times the scale.

    Shapes: the table's as of `unpacked_q6_k`, ids [batch, seq]
        -> [batch, seq, 256*n_super].
    """
    return looked_up(
        ids,
        scale,
        unpacked_q6_k,
        weight,
        weight_high,
        weight_scale,
        weight_super_scale,
        tile_n=8,
    )
