"""Run oracles in float32, to learn what float32 itself costs in a computation.

An oracle asks for float64 in every line. `Single` is an array that computes in float32
whatever it is asked for, so that the same lines give both results, and their difference
is what rounding costs there.

In a case of few tokens a single rounding may decide all numbers, and be right by
chance. Such a case therefore runs several times, side by side in one batch, so that
weights are unpacked once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ingot.checks.losses import ULP

if TYPE_CHECKING:
    from ingot.model.oracle import Oracle
    from ingot.model.shapes import TensorType

Array: TypeAlias = Any
Typed: TypeAlias = "tuple[TensorType, Array]"

WIDE, NARROW = "float64", "float32"

# How often a case of few tokens runs; a longer one has enough numbers of its own.
SAMPLES = 4
FEW_TOKENS = 64


@cache
def single() -> Any:
    """Return the class `Single`: arrays all of whose operations round to float32.

    Sums add one number after the other, as the inner loop of a kernel does: NumPy's own
    are of pairs, which loses less. Each sum also gains or loses something at random: as
    much as one of its last binary digit, and as half a digit of what its terms add up
    to without their signs. So samples differ as other orders of adding would, also
    where the terms cancel each other.

    Source: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 4.2:
        an order of adding loses a share of the sum of the terms' sizes.
    """
    import numpy as np

    class Single(np.ndarray[Any, Any]):
        """An array that rounds to float32."""

        def astype(self, dtype: Any, *arguments: Any, **options: Any) -> Any:
            """Convert to another type, to float32 in place of float64."""
            dtype = NARROW if np.dtype(dtype) == WIDE else dtype
            return super().astype(dtype, *arguments, **options)

        def __array_ufunc__(
            self, ufunc: Any, method: str, *inputs: Any, **options: Any
        ) -> Any:
            """Apply a function to numbers that are rounded to float32 before."""
            given = [_narrow(item) for item in inputs]
            if "out" in options:
                options["out"] = tuple(map(_plain, options["out"]))
            with np.errstate(all="ignore"):
                if method == "reduce" and ufunc is np.add and given[0].dtype == NARROW:
                    sums, sizes = (_sum(x, options) for x in (given[0], abs(given[0])))
                    return _single(_rerounded(sums, sizes))
                made = getattr(ufunc, method)(*given, **options)
                if ufunc is np.matmul and made.dtype == NARROW:
                    made = _rerounded(made, np.matmul(*map(np.abs, given)))
                return _single(made)

        def __array_function__(
            self, function: Any, types: Any, arguments: Any, options: Any
        ) -> Any:
            """Apply a function that is made of others."""
            made = super().__array_function__(function, types, arguments, options)
            return _single(made)

    return Single


def n_sample(sizes: tuple[tuple[str, int], ...]) -> int:
    """Return how often a case of these sizes runs in float32."""
    n_token = math.prod(size for name, size in sizes if name in ("batch", "seq"))
    return SAMPLES if n_token <= FEW_TOKENS else 1


def side_by_side(values: Sequence[Typed], count: int) -> tuple[Array, ...]:
    """Return inputs for as many times the sequences, each like the first ones.

    Blocks of a paged cache are repeated too, and each table leads to its own.
    """
    n_block = next(
        (value.shape[1] for type_, value in values if _axis(type_) == "n_block"), 0
    )
    return tuple(_repeated(type_, value, count, n_block) for type_, value in values)


def lost(type_: TensorType, wide: Array, narrow: Array, count: int) -> Array:
    """Return the largest difference of a result's samples from the result.

    Shapes: wide as the type says, narrow of `count` times the sequences -> as wide.
    """
    import numpy as np

    exact = np.asarray(wide, WIDE)
    samples: Iterable[Array] = [narrow]
    if axis := _axis(type_):
        samples = np.split(narrow, count, [*type_.shape].index(axis))
    with np.errstate(invalid="ignore"):
        return np.max([np.abs(np.asarray(x, WIDE) - exact) for x in samples], axis=0)


def in_float32(oracles: Mapping[str, Oracle]) -> dict[str, Oracle]:
    """Return the oracles as float32 computes them; their results are float32."""
    return {name: _narrowed(oracle) for name, oracle in oracles.items()}


def _narrowed(oracle: Oracle) -> Oracle:
    def narrowed(**given: Any) -> Any:
        found = oracle(**{k: _single(_narrow(value)) for k, value in given.items()})
        if isinstance(found, tuple):
            return tuple(map(_narrow, found))
        return _narrow(found)

    return narrowed


def _axis(type_: TensorType) -> str:
    """Return the dim that sequences are along."""
    return next((dim for dim in ("batch", "n_block") if dim in type_.shape), "")


def _repeated(type_: TensorType, value: Array, count: int, n_block: int) -> Array:
    import numpy as np

    axis = _axis(type_)
    if not axis or count == 1:
        return value
    if type_.shape[-1] == "n_block_seq":
        return np.concatenate([value + n_block * number for number in range(count)])
    return np.concatenate([value] * count, axis=[*type_.shape].index(axis))


def _single(value: Any) -> Any:
    """Return arrays as `Single`, also those in a tuple or a list."""
    import numpy as np

    if isinstance(value, tuple | list):
        return type(value)(map(_single, value))
    is_array = isinstance(value, np.ndarray) and value.ndim
    return value.view(single()) if is_array else value


def _rerounded(sums: Array, sizes: Array) -> Array:
    """Return float32 sums, each moved by up to a digit, or half a digit of its size.

    It is the larger of the two. The size is the sum of the terms without their signs.

    Shapes: sums [...], sizes [...] -> [...].
    """
    import numpy as np

    # Numbers and their places are the seed: the same on every thread. The multiplier
    # is Knuth's.
    bits = np.ascontiguousarray(sums).view(np.uint32).ravel()
    mixed: Array = bits + np.arange(bits.size, dtype=np.uint32)
    mixed *= np.uint32(2654435761)
    share = (mixed >> np.uint32(8)).astype(WIDE) * 2.0**-23 - 1
    wide = sums.ravel().astype(WIDE)
    moved = wide + share * ULP * np.maximum(2 * np.abs(wide), np.ravel(sizes))
    return moved.astype(NARROW).reshape(sums.shape)


def _plain(value: Any) -> Any:
    import numpy as np

    return value.view(np.ndarray) if isinstance(value, np.ndarray) else value


def _narrow(value: Any) -> Any:
    """Return a plain array or a number, in float32 where it is float64."""
    import numpy as np

    if not isinstance(value, np.ndarray | np.generic):
        return value
    if value.dtype == WIDE:
        return np.asarray(value, NARROW)
    return _plain(value)


def _sum(values: Array, options: dict[str, Any]) -> Array:
    """Return the sums along the axes, of one number after the other."""
    import numpy as np

    axis, keep = options.get("axis", 0), options.get("keepdims", False)
    axes = range(values.ndim) if axis is None else np.atleast_1d(axis) % values.ndim
    total = values
    for number in axes:
        running = np.add.accumulate(total, axis=int(number), dtype=NARROW)
        total = running.take([-1], axis=int(number))
    return total if keep else total.squeeze(tuple(int(number) for number in axes))
