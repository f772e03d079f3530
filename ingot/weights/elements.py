"""A chunk of a tensor in one element type in, the same numbers in another type out.

NumPy has no bfloat16; here it is the upper half of a float32, which is its definition.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A one-dimensional NumPy array; NumPy is imported where it is used."""

# The project's spelling (MLIR's), and that of safetensors.
SAFETENSORS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
PROJECT = {theirs: ours for ours, theirs in SAFETENSORS.items()}

ITEM_BYTES = {"f32": 4, "f16": 2, "bf16": 2}

# As iree.runtime writes them into an archive's metadata.
NUMPY_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def decode(data: memoryview, element: str) -> Array:
    """Return little-endian bytes of an element type as float32, exactly."""
    import numpy as np

    if element == "bf16":
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
    if element == "f16":
        return np.frombuffer(data, "<f2").astype("<f4")
    return np.frombuffer(data, "<f4")


def encode(values: Array, element: str) -> bytes:
    """Return finite float32 values in an element type, rounded to nearest even.

    A value beyond the type's range becomes infinite: the caller looks for it.
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


def first_not_finite(values: Array) -> int | None:
    """Return the place of the first NaN or infinity."""
    import numpy as np

    finite = np.isfinite(values)
    return None if finite.all() else int(np.argmin(finite))
