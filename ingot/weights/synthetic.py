"""Generate reproducible random values for a parameter, in chunks.

Every parameter has a random stream of its own, so that adding one does not change the
others. The values are scaled as initialisers scale them, so that activations stay in
the range of a trained model.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

Array: TypeAlias = Any

# The standard deviation with which BERT and GPT-2 initialise embeddings and biases.
SMALL_SCALE = 0.02


def synthetic_chunks(
    name: str, shape: tuple[int, ...], seed: int, chunk_bytes: int
) -> Iterator[Array]:
    """Yield float32 values of the parameter, in order.

    Shapes: -> [up to chunk_bytes / 4].
    """
    import numpy as np

    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    # Philox is counter-based: the same numbers on every machine and operating system.
    rng = np.random.Generator(np.random.Philox(int.from_bytes(digest[:16], "little")))
    offset, scale = _distribution(name, shape)
    left = math.prod(shape)
    while left:
        count = min(left, chunk_bytes // 4)
        yield rng.standard_normal(count, np.float32) * np.float32(scale) + np.float32(
            offset
        )
        left -= count


def _distribution(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Return mean and standard deviation."""
    if "norm" in name and name.endswith(".weight"):
        return 1.0, SMALL_SCALE
    if len(shape) < 2 or "embd" in name or "token_types" in name:
        return 0.0, SMALL_SCALE
    # [n_out, n_in]: a sum of n_in products keeps the variance of its inputs.
    return 0.0, 1 / math.sqrt(shape[-1])
