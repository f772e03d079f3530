"""Measure the distance between an exact array and one with errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.checks.compare import smallest_cosine

Array: TypeAlias = Any

TOLERANCES = (1e-2, 1e-3)
"""The tolerances for `numpy.allclose`, both relative and absolute."""


@dataclass(frozen=True, slots=True)
class Error:
    """The distance of values from the exact ones; not finite if one of them is not."""

    max_abs: float
    mse: float  # mean squared error
    cosine: float  # the smallest over all vectors of the last dimension
    close: tuple[float, ...]  # share of values within each of TOLERANCES, 0 to 1
    relative: float  # RMS error over RMS value


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the errors of the logits affect the next token, over all positions."""

    top_1: float  # share of positions with the same most likely token, 0 to 1
    kl: float  # mean Kullback-Leibler divergence from the exact distribution, nats


def error(exact: Array, got: Array) -> Error:
    """Return the error of an array.

    Shapes: exact, got [..., n], the same.
    """
    import numpy as np

    difference = _difference(exact, got)
    return Error(
        max_abs=float(difference.max()),
        mse=float(np.mean(np.square(difference))),
        cosine=smallest_cosine(exact, got),
        close=tuple(
            float(np.mean(difference <= limit + limit * np.abs(exact)))
            for limit in TOLERANCES
        ),
        relative=_relative(exact, difference),
    )


def relative_error(exact: Array, got: Array) -> float:
    """Return the RMS error divided by the RMS of the exact array.

    The result is infinite if the exact array is zero.
    """
    return _relative(exact, _difference(exact, got))


def agreement(exact: Array, got: Array) -> Agreement:
    """Return how far the next tokens agree.

    Shapes: exact, got [..., n_vocab]: logits.
    """
    import numpy as np

    same = np.argmax(exact, axis=-1) == np.argmax(got, axis=-1)
    wanted, found = _log_softmax(exact), _log_softmax(got)
    divergence = np.sum(np.exp(wanted) * (wanted - found), axis=-1)
    return Agreement(float(np.mean(same)), float(np.mean(divergence)))


def _difference(exact: Array, got: Array) -> Array:
    import numpy as np

    with np.errstate(invalid="ignore"):
        difference = np.abs(np.asarray(got, np.float64) - exact)
    difference[~np.isfinite(difference)] = np.inf
    return difference


def _relative(exact: Array, difference: Array) -> float:
    import numpy as np

    size = float(np.sqrt(np.mean(np.square(np.asarray(exact, np.float64)))))
    wrong = float(np.sqrt(np.mean(np.square(difference))))
    if size == 0:
        return np.inf if wrong else 0.0
    return wrong / size


def _log_softmax(logits: Array) -> Array:
    import numpy as np

    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
