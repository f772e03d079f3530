"""Round rows to codes and scales, and compute the values that these stand for.

What a quantised matrix consists of has the names of a kernel's arguments. `weight` is
the codes, one for each value: unsigned, except for codes of 8 bits. `weight_scale`,
`weight_min`, `weight_super_scale` and `weight_super_min` belong to groups of columns.
A GGUF file has been rounded already: `ggml_blocks` reads its codes and scales.

Source: ggml-org/ggml, src/ggml-quants.c, for the forms of its types. Codes are rounded
to nearest here; llama.cpp searches for better scales of q4_k and q6_k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.weights.hqq import fit

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used."""
Quantised: TypeAlias = dict[str, Array]
"""Arrays [rows, groups of columns], by the kernel's argument."""

# Codes of 8 bits are symmetric: -128 would have no counterpart.
I8_LIMIT = 127
# Columns of an outer block, whose scale multiplies those of its blocks.
SUPER = 256
# The most that a scale of a block in an outer one may be, in q4_k and q6_k.
_SIX_BITS, _BYTE = 63, 127


@dataclass(frozen=True, slots=True)
class Scheme:
    """The form of a stored type whose blocks of columns have scales."""

    bits: int  # of a code
    columns: int  # of a block
    middle: int = 0  # what a code is above zero
    has_min: bool = False
    nested: bool = False  # blocks in an outer block
    ggml: str = ""  # the type in GGUF files whose codes these are
    exact: bool = False  # only of that type, never rounded
    fitted: bool = False  # scales by `ingot.weights.hqq`

    @property
    def width(self) -> int:
        """Return the number of columns that a row has to be a multiple of."""
        return SUPER if self.nested else self.columns


SCHEMES = {
    "i8_block32": Scheme(8, 32, ggml="Q8_0"),
    "i4_block32": Scheme(4, 32, 8, ggml="Q4_0"),
    "i4_block32_hqq": Scheme(4, 32, has_min=True, fitted=True),
    "q8_0": Scheme(8, 32, ggml="Q8_0", exact=True),
    "q4_0": Scheme(4, 32, 8, ggml="Q4_0", exact=True),
    "q4_1": Scheme(4, 32, has_min=True, ggml="Q4_1", exact=True),
    "q5_0": Scheme(5, 32, 16, ggml="Q5_0", exact=True),
    "q4_k": Scheme(4, 32, has_min=True, nested=True, ggml="Q4_K", exact=True),
    "q6_k": Scheme(6, 16, 32, nested=True, ggml="Q6_K", exact=True),
}
"""By the name in a manifest."""


def is_exact(stored: str) -> bool:
    """Return whether a stored type keeps the blocks of a GGUF file."""
    return stored in SCHEMES and SCHEMES[stored].exact


def quantise(rows: Array, scheme: str) -> Quantised:
    """Return the codes and scales nearest to the values.

    A scale that exceeds float16 is infinite.

    Shapes: rows [n, columns], float32.
    Raises: KeyError for a scheme that has no blocks.
    """
    form = SCHEMES[scheme]
    if form.bits == 8:
        codes, scale = quantise_bytes(rows)
        return {"weight": codes, "weight_scale": scale}
    if form.nested:
        return _nested(rows, form)
    return _blocks(rows, form)


def dequantise(parts: Quantised, scheme: str) -> Array:
    """Return the values of codes and scales, float32.

    Shapes: -> [n, columns].
    """
    import numpy as np

    form = SCHEMES[scheme]

    def spread(name: str, columns: int) -> Array:
        return np.repeat(parts[name].astype(np.float32), columns, axis=1)

    codes = parts["weight"].astype(np.float32) - np.float32(form.middle)
    scale = spread("weight_scale", form.columns)
    if form.nested:
        scale = spread("weight_super_scale", SUPER) * scale
    if not form.has_min:
        return codes * scale
    least = spread("weight_min", form.columns)
    if form.nested:
        return codes * scale - spread("weight_super_min", SUPER) * least
    return codes * scale + least


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


def quantise_bytes(rows: Array) -> tuple[Array, Array]:
    """Return codes of 8 bits and the scale of each block of 32 columns.

    Shapes: rows [n, columns] -> int8 [n, columns], float16 [n, columns / 32].
    Source: ggml's q8_0; here the codes follow the scale as it is stored.
    """
    import numpy as np

    blocks = rows.reshape(len(rows), -1, 32)
    scale = _half(np.abs(blocks).max(axis=2) / np.float32(I8_LIMIT))
    codes = np.rint(blocks / _divisor(scale)).clip(-I8_LIMIT, I8_LIMIT)
    return codes.astype(np.int8).reshape(rows.shape), scale


def _blocks(rows: Array, form: Scheme) -> Quantised:
    """Return blocks whose scale is a float16, as q4_0, q4_1 and q5_0 have them."""
    import numpy as np

    blocks = rows.reshape(len(rows), -1, form.columns)
    if form.fitted:
        scale, least = fit(blocks, 2**form.bits - 1)
        moved = blocks - least.astype(np.float32)[:, :, None]
        codes = _codes(moved, _divisor(scale), form)
        return {"weight": codes, "weight_scale": scale, "weight_min": least}
    if form.has_min:
        low = blocks.min(axis=2)
        least = _half(low)
        scale = _half((blocks.max(axis=2) - low) / np.float32(2**form.bits - 1))
        moved = blocks - least.astype(np.float32)[:, :, None]
        codes = _codes(moved, _divisor(scale), form)
        return {"weight": codes, "weight_scale": scale, "weight_min": least}
    # The largest value gets the lowest code, which has no counterpart.
    scale = _half(_extreme(blocks) / np.float32(-form.middle))
    return {"weight": _codes(blocks, _divisor(scale), form), "weight_scale": scale}


def _nested(rows: Array, form: Scheme) -> Quantised:
    """Return blocks in outer blocks, as q4_k and q6_k have them."""
    import numpy as np

    blocks = rows.reshape(len(rows), -1, form.columns)
    if not form.has_min:
        wanted = _extreme(blocks) / np.float32(-form.middle)
        outer, scale, wide = _of_outer(wanted, form, _BYTE, np.int8)
        codes = _codes(blocks, _divisor(wide), form)
        return {
            "weight": codes,
            "weight_scale": scale,
            "weight_super_scale": outer,
        }
    # A minimum is what is subtracted, so it is not below zero.
    low = -blocks.min(axis=2).clip(max=0)
    outer_min, least, least_wide = _of_outer(low, form, _SIX_BITS, np.int8)
    wanted = (blocks.max(axis=2) + low) / np.float32(2**form.bits - 1)
    outer, scale, wide = _of_outer(wanted, form, _SIX_BITS, np.int8)
    codes = _codes(blocks + least_wide[:, :, None], _divisor(wide), form)
    return {
        "weight": codes,
        "weight_scale": scale,
        "weight_min": least,
        "weight_super_scale": outer,
        "weight_super_min": outer_min,
    }


def _of_outer(
    wanted: Array, form: Scheme, limit: int, kind: Any
) -> tuple[Array, Array, Array]:
    """Return the scales of outer blocks, those of their blocks, and the products."""
    import numpy as np

    count = SUPER // form.columns
    groups = wanted.reshape(len(wanted), -1, count)
    outer = _half(np.abs(groups).max(axis=2) / np.float32(limit))
    own = np.rint(groups / _divisor(outer)).clip(-limit, limit).astype(kind)
    wide = own * outer.astype(np.float32)[:, :, None]
    return outer, own.reshape(wanted.shape), wide.reshape(wanted.shape)


def _codes(blocks: Array, divisor: Array, form: Scheme) -> Array:
    import numpy as np

    codes = np.rint(blocks / divisor) + form.middle
    return codes.clip(0, 2**form.bits - 1).astype(np.uint8).reshape(len(blocks), -1)


def _extreme(blocks: Array) -> Array:
    """Return the value of each block that is farthest from zero."""
    import numpy as np

    place = np.abs(blocks).argmax(axis=2, keepdims=True)
    return np.take_along_axis(blocks, place, axis=2)[:, :, 0]


def _half(scale: Array) -> Array:
    import numpy as np

    with np.errstate(over="ignore"):
        return scale.astype(np.float16)


def _divisor(scale: Array) -> Array:
    """Return the scales to divide by; any suits blocks that are zeros."""
    import numpy as np

    return np.where(scale != 0, scale, scale.dtype.type(1)).astype(np.float32)[
        :, :, None
    ]
