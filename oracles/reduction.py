"""Define what components/reduction must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def reduce_max(x: Floats) -> NDArray[np.float64]:
    """Return the largest number of each row.

    Shapes: x [batch, seq, n_embd] -> [batch, seq].
    """
    largest: NDArray[np.float64] = x.astype(np.float64).max(axis=-1)
    return largest


def reduce_min(x: Floats) -> NDArray[np.float64]:
    """Return the smallest number of each row.

    Shapes: x [batch, seq, n_embd] -> [batch, seq].
    """
    smallest: NDArray[np.float64] = x.astype(np.float64).min(axis=-1)
    return smallest


def reduce_sum(x: Floats) -> NDArray[np.float64]:
    """Return the sum of each row.

    Shapes: x [batch, seq, n_embd] -> [batch, seq].
    """
    total: NDArray[np.float64] = x.astype(np.float64).sum(axis=-1)
    return total


def mean(x: Floats) -> NDArray[np.float64]:
    """Return the mean of each row.

    Shapes: x [batch, seq, n_embd] -> [batch, seq].
    """
    quotient: NDArray[np.float64] = reduce_sum(x) / x.shape[-1]
    return quotient


def argmax(x: Floats) -> NDArray[np.int32]:
    """Return where each row is largest; of equal numbers the first.

    A row with a NaN has no largest number: any of its places will do.

    Shapes: x [batch, seq, n_embd] -> [batch, seq].
    """
    place: NDArray[np.int32] = x.argmax(axis=-1).astype(np.int32)
    return place


def argsort(x: Floats) -> NDArray[np.int32]:
    """Return the places of each row's numbers, smallest first; ties keep their order.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    """
    places: NDArray[np.int32] = x.argsort(axis=-1, kind="stable").astype(np.int32)
    return places


def topk(x: Floats, k: int) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return the k largest numbers of each row, and their places, largest first.

    Of equal numbers the first comes first.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, k] values, and places.
    Raises: ValueError if a row has no k numbers.
    """
    if k > x.shape[-1]:
        raise ValueError(f"expected k of at most {x.shape[-1]}, found {k}")
    places = argsort(-x)[..., :k]
    return np.take_along_axis(x.astype(np.float64), places, axis=-1), places
