"""Convert a chunk of a tensor from one element type to another.

NumPy has no bfloat16; here it is the upper half of a float32, which is its definition.
The `gguf` package decodes GGUF's block formats.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A one-dimensional NumPy array; NumPy is imported where it is used."""

# The project's spelling (that of MLIR), and the spelling in safetensors and GGUF.
SAFETENSORS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
PROJECT = {theirs: ours for ours, theirs in SAFETENSORS.items()}

ITEM_BYTES = {"f32": 4, "f16": 2, "bf16": 2, "i8": 1, "i16": 2, "i32": 4}

# The types that can be read: by the files' spelling, values and bytes per block.
BLOCKS = {
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "Q8_0": (32, 34),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
}

# As iree.runtime writes them into an archive's metadata.
NUMPY_NAMES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
}


def decode(data: memoryview, element: str) -> Array:
    """Return little-endian bytes of an element type as float32.

    The result is exact, except for the rounding that a block format itself defines.
    """
    import numpy as np

    element = PROJECT.get(element, element)
    if element == "bf16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    if element == "f16":
        return np.frombuffer(data, "<f2").astype("<f4")
    if element == "f32":
        return np.frombuffer(data, "<f4")
    return _dequantize(data, element)


def encode(values: Array, element: str) -> bytes:
    """Return finite float32 values in an element type, rounded to nearest even.

    A value beyond the type's range becomes infinite; the caller checks for it.
    """
    import numpy as np

    if element == "bf16":
        bits = values.view("<u4")
        # Half a unit of the last place that stays, less one bit where that place is
        # even.
        rounded = bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)
        return bytes((rounded >> 16).astype("<u2").data)
    if element == "f16":
        with np.errstate(over="ignore"):
            return bytes(values.astype("<f2").data)
    return bytes(values.astype("<f4", copy=False).data)


def rows_of_blocks(element: str, width: int) -> int:
    """Return the least number of rows of `width` values that fill whole blocks."""
    values, _ = BLOCKS[element]
    return values // math.gcd(values, width)


def first_not_finite(values: Array) -> int | None:
    """Return the index of the first NaN or infinity."""
    import numpy as np

    finite = np.isfinite(values)
    return None if finite.all() else int(np.argmin(finite))


def _dequantize(data: memoryview, element: str) -> Array:
    import numpy as np
    from gguf import GGMLQuantizationType, dequantize

    # The caller finds a corrupt scale, because it can say where it is.
    with np.errstate(all="ignore"):
        values = dequantize(
            np.frombuffer(data, np.uint8), GGMLQuantizationType[element]
        )
    return values.astype("<f4", copy=False)
