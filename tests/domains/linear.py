"""What the arguments of linear maps mean, and which sizes go together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np

from tests.component_cases import Draw


def weight(draw: Draw) -> np.ndarray:
    """Return weights that keep the size of what they multiply, as a model's do."""
    numbers = draw.rng.standard_normal(draw.shape)
    if "n_in" in draw.sizes:
        return np.asarray(numbers / np.sqrt(draw.sizes["n_in"]))
    return numbers


def weight_i8(draw: Draw) -> np.ndarray:
    """Return all bytes but -128, which symmetric quantisation does not make."""
    return draw.rng.integers(-127, 128, draw.shape)


def weight_words(draw: Draw) -> np.ndarray:
    """Return words of 8 codes, each of 4 bits."""
    return draw.rng.integers(-(2**31), 2**31, draw.shape)


def weight_scale(draw: Draw) -> np.ndarray:
    """Return scales that make a row of bytes as long as one of float weights."""
    sizes = draw.sizes
    n_in = sizes.get("n_in", 32 * sizes.get("n_block", 8 * sizes.get("n_super", 0)))
    n_in = n_in or 32
    return np.asarray(draw.rng.random(draw.shape) / (73 * np.sqrt(n_in)))


def weight_scale_i4(draw: Draw) -> np.ndarray:
    """Return scales that make a row of codes, -8 to 7, as long as one of floats."""
    return 16 * weight_scale(draw)


def words(numbers: np.ndarray) -> np.ndarray:
    """Return the words that hold the numbers, the first in the lowest bits."""
    return numbers.astype(numbers.dtype.newbyteorder("<")).view("<i4")


def wider(draw: Draw, count: int) -> Draw:
    """Return what draws the numbers of words that hold `count` of them."""
    return replace(draw, shape=(*draw.shape[:-1], draw.shape[-1] * count))


def words_bf16(draw: Draw) -> np.ndarray:
    """Return words of 2 weights, bfloat16."""
    return weight(wider(draw, 2)).astype(ml_dtypes.bfloat16).view("<i4")


def halves(draw: Draw, numbers: np.ndarray) -> np.ndarray:
    """Return words of 2 float16, a tenth of them below its normal numbers."""
    tiny = numbers / np.abs(numbers).max(initial=1e-9) * 6e-5
    below = draw.rng.random(numbers.shape) < 0.1
    return words(np.where(below, tiny, numbers).astype(np.float16))


def words_f16(draw: Draw) -> np.ndarray:
    """Return words of 2 weights, float16."""
    return halves(draw, weight(wider(draw, 2)))


def words_i8(draw: Draw) -> np.ndarray:
    """Return words of 4 bytes, all but -128."""
    return words(weight_i8(wider(draw, 4)).astype(np.int8))


def words_scale(draw: Draw) -> np.ndarray:
    """Return words of 2 scales, float16, for bytes."""
    return halves(draw, weight_scale(wider(draw, 2)))


def words_scale_i4(draw: Draw) -> np.ndarray:
    """Return words of 2 scales, float16, for codes of 4 bits."""
    return halves(draw, weight_scale_i4(wider(draw, 2)))


def any_bytes(draw: Draw) -> np.ndarray:
    """Return bytes of which each bit counts."""
    return draw.rng.integers(-128, 128, draw.shape)


def any_shorts(draw: Draw) -> np.ndarray:
    """Return numbers of 16 bits of which each bit counts."""
    return draw.rng.integers(-(2**15), 2**15, draw.shape)


def six_bits(draw: Draw) -> np.ndarray:
    """Return the scales or minima of blocks in blocks, 0 to 63."""
    return draw.rng.integers(0, 64, draw.shape)


def minimum(draw: Draw) -> np.ndarray:
    """Return minima of both signs, up to 8 codes of 4 bits away."""
    return np.asarray(8 * weight_scale_i4(draw) * draw.rng.choice([-1, 1], draw.shape))


def weight_scale_q5(draw: Draw) -> np.ndarray:
    """Return scales of codes, -16 to 15."""
    return 8 * weight_scale(draw)


def super_scale_q4(draw: Draw) -> np.ndarray:
    """Return scales of 6-bit scales of codes of 4 bits."""
    return weight_scale_i4(draw) / 32


def super_min_q4(draw: Draw) -> np.ndarray:
    """Return scales of 6-bit minima."""
    return minimum(draw) / 32


def super_scale_q6(draw: Draw) -> np.ndarray:
    """Return scales of bytes that are scales of codes of 6 bits."""
    return 4 * weight_scale(draw) / 74


def words_of_halves(of: Callable[[Draw], np.ndarray]) -> Callable[[Draw], np.ndarray]:
    """Return what draws words of 2 such numbers, float16."""
    return lambda draw: halves(draw, of(wider(draw, 2)))


def words_of_bytes(of: Callable[[Draw], np.ndarray]) -> Callable[[Draw], np.ndarray]:
    """Return what draws words of 4 such bytes."""
    return lambda draw: words(of(wider(draw, 4)).astype(np.int8))


PACKED_U32 = {
    "packed_u32_bf16.weight": words_bf16,
    "packed_u32_f16.weight": words_f16,
    "packed_u32_i8.weight": words_i8,
    "packed_u32_i8_block32.weight": words_i8,
    "packed_u32_i8_block32.weight_scale": words_scale,
    "packed_u32_i4_block32.weight": weight_words,
    "packed_u32_i4_block32.weight_scale": words_scale_i4,
    "packed_u32_q4_1.weight": weight_words,
    "packed_u32_q4_1.weight_scale": words_scale_i4,
    "packed_u32_q4_1.weight_min": words_of_halves(minimum),
    "packed_u32_q5_0.weight": weight_words,
    "packed_u32_q5_0.weight_high": weight_words,
    "packed_u32_q5_0.weight_scale": words_of_halves(weight_scale_q5),
    "packed_u32_q4_k.weight": weight_words,
    "packed_u32_q4_k.weight_scale": words_of_bytes(six_bits),
    "packed_u32_q4_k.weight_min": words_of_bytes(six_bits),
    "packed_u32_q4_k.weight_super_scale": words_of_halves(super_scale_q4),
    "packed_u32_q4_k.weight_super_min": words_of_halves(super_min_q4),
    "packed_u32_q6_k.weight": weight_words,
    "packed_u32_q6_k.weight_high": weight_words,
    "packed_u32_q6_k.weight_scale": words_of_bytes(any_bytes),
    "packed_u32_q6_k.weight_super_scale": words_of_halves(super_scale_q6),
}
# The parts of matrices in the block formats of GGUF, for CPUs.
PACKED_BLOCKS = {
    "packed_q4_1.weight": weight_words,
    "packed_q4_1.weight_scale": weight_scale_i4,
    "packed_q4_1.weight_min": minimum,
    "packed_q5_0.weight": weight_words,
    "packed_q5_0.weight_high": any_bytes,
    "packed_q5_0.weight_scale": weight_scale_q5,
    "packed_q4_k.weight": weight_words,
    "packed_q4_k.weight_scale": six_bits,
    "packed_q4_k.weight_min": six_bits,
    "packed_q4_k.weight_super_scale": super_scale_q4,
    "packed_q4_k.weight_super_min": super_min_q4,
    "packed_q6_k.weight": weight_words,
    "packed_q6_k.weight_high": any_shorts,
    "packed_q6_k.weight_scale": any_bytes,
    "packed_q6_k.weight_super_scale": super_scale_q6,
}


def fit(component: str, sizes: dict[str, int]) -> dict[str, int]:
    """Return sizes whose tiles have as many rows as a vector has numbers."""
    if "tile_n" in sizes:
        sizes["tile_n"] = {7: 4, 15: 8, 16: 16, 31: 8, 32: 16}.get(sizes["tile_n"], 4)
    if "n_tile" in sizes:
        sizes["n_tile"] = min(sizes["n_tile"], 33)
    if "n_super" in sizes:
        sizes["n_super"] = min(sizes["n_super"], 3)
    return sizes


VALUES = {
    **{f"linear_{name}": draw for name, draw in PACKED_U32.items()},
    **{f"linear_{name}": draw for name, draw in PACKED_BLOCKS.items()},
    "weight": weight,
    "linear_packed_i8.weight": weight_i8,
    "linear_packed_i8_block32.weight": weight_i8,
    "linear_packed_i8_block32_decode.weight": weight_i8,
    "linear_packed_i4_block32.weight": weight_words,
    "weight_scale": weight_scale,
    "linear_packed_i4_block32.weight_scale": weight_scale_i4,
}
