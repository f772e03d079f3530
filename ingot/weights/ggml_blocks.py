"""Read the codes and scales of the blocks in a GGUF file, unchanged.

The archive holds these very numbers, so a matrix that llama.cpp quantised is not
rounded a second time. Blocks of other types than those here become float32
(`element_types`).

Source: ggml-org/ggml, src/ggml-common.h (block_q4_0 to block_q6_K), src/ggml-quants.c.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.weights.element_types import BLOCKS
from ingot.weights.quantise import Array, Quantised

Read = Callable[[Array], Quantised]


def read_blocks(rows: Array, element: str) -> Quantised:
    """Return the codes and scales of rows of blocks.

    Shapes: rows [n, bytes of a row], uint8.
    Raises: KeyError for a type that is not stored as it is.
    """
    _, block_bytes = BLOCKS[element]
    blocks = rows.reshape(-1, block_bytes)
    return {
        name: values.reshape(len(rows), -1)
        for name, values in _READERS[element](blocks).items()
    }


def _halves(content: Array) -> Array:
    import numpy as np

    return np.ascontiguousarray(content).view("<f2")


def _nibbles(content: Array) -> Array:
    """Return the lower 4 bits of all bytes, then the upper ones.

    Shapes: content [..., n] -> [..., 2*n].
    """
    import numpy as np

    return np.concatenate([content & 15, content >> 4], axis=-1)


def _q8_0(blocks: Array) -> Quantised:
    return {"weight": blocks[:, 2:].view("i1"), "weight_scale": _halves(blocks[:, :2])}


def _q4_0(blocks: Array) -> Quantised:
    return {
        "weight": _nibbles(blocks[:, 2:]),
        "weight_scale": _halves(blocks[:, :2]),
    }


def _q4_1(blocks: Array) -> Quantised:
    return {
        "weight": _nibbles(blocks[:, 4:]),
        "weight_scale": _halves(blocks[:, :2]),
        "weight_min": _halves(blocks[:, 2:4]),
    }


def _q5_0(blocks: Array) -> Quantised:
    import numpy as np

    fifth = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    return {
        "weight": _nibbles(blocks[:, 6:]) | fifth << 4,
        "weight_scale": _halves(blocks[:, :2]),
    }


def _q4_k(blocks: Array) -> Quantised:
    import numpy as np

    # 8 scales and 8 minima of 6 bits: bytes 0 to 7 have all bits of the first 4; of the
    # last 4, bytes 8 to 11 have the lower 4 bits, and bytes 0 to 7 the upper 2.
    first, second, last = (blocks[:, 4 + 4 * i : 8 + 4 * i] for i in range(3))
    scale = np.concatenate([first & 63, last & 15 | first >> 6 << 4], axis=1)
    least = np.concatenate([second & 63, last >> 4 | second >> 6 << 4], axis=1)
    return {
        "weight": _nibbles(blocks[:, 16:].reshape(-1, 4, 32)),
        "weight_scale": scale.view("i1"),
        "weight_min": least.view("i1"),
        "weight_super_scale": _halves(blocks[:, :2]),
        "weight_super_min": _halves(blocks[:, 2:4]),
    }


def _q6_k(blocks: Array) -> Quantised:
    import numpy as np

    lower = _nibbles(blocks[:, :128].reshape(-1, 2, 64))
    pairs = blocks[:, 128:192].reshape(-1, 2, 32)
    upper = np.concatenate([pairs >> bit & 3 for bit in (0, 2, 4, 6)], axis=2)
    return {
        "weight": lower | upper << 4,
        "weight_scale": blocks[:, 192:208].view("i1"),
        "weight_super_scale": _halves(blocks[:, 208:]),
    }


_READERS: dict[str, Read] = {
    "Q8_0": _q8_0,
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q4_K": _q4_k,
    "Q6_K": _q6_k,
}

KEPT: tuple[Any, ...] = tuple(_READERS)
"""The types of GGUF that are stored as they are."""
