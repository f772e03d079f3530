"""Define what components/elementwise must compute; the results are float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def add(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the sum of two tensors of one shape.

    Shapes: a, b [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the shapes differ: the component does not broadcast.
    Source: He et al. 2015, arXiv:1512.03385, eq. 1.
    """
    _same_shape(a, b)
    return a.astype(np.float64) + b.astype(np.float64)


def add_bias(x: Floats, bias: Floats) -> NDArray[np.float64]:
    """Add one vector to every row.

    Shapes: x [batch, seq, n_embd], bias [n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the vector is no row.
    """
    if bias.shape != x.shape[2:]:
        raise ValueError(f"shapes differ; expected {x.shape[2:]}, found {bias.shape}")
    return x.astype(np.float64) + bias.astype(np.float64)


def soft_cap(x: Floats, cap: float) -> NDArray[np.float64]:
    """Squeeze all numbers into (-cap, cap); small ones hardly change.

    Shapes: x [batch, seq, n_vocab] -> [batch, seq, n_vocab].
    Units: cap has the unit of x.
    Source: Gemma Team 2024, arXiv:2408.00118, section 2 (logit soft-capping).
    """
    capped: NDArray[np.float64] = cap * np.tanh(x.astype(np.float64) / cap)
    return capped


def scale(x: Floats, factor: float) -> NDArray[np.float64]:
    """Multiply every number by one factor.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: xAI 2024, grok-1 (model.py, output_multiplier_scale).
    """
    y: NDArray[np.float64] = x.astype(np.float64) * factor
    return y


def sub(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the difference of two tensors of one shape.

    Shapes: a, b [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the shapes differ.
    """
    return add(a, -b.astype(np.float64))


def mul(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the product of two tensors of one shape, element by element.

    Shapes: a, b [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the shapes differ.
    """
    _same_shape(a, b)
    return a.astype(np.float64) * b.astype(np.float64)


def div(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the quotient of two tensors of one shape, element by element.

    Shapes: a, b [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the shapes differ.
    """
    _same_shape(a, b)
    return a.astype(np.float64) / b.astype(np.float64)


def neg(x: Floats) -> NDArray[np.float64]:
    """Return the opposite of every number.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    """
    return -x.astype(np.float64)


def abs(x: Floats) -> NDArray[np.float64]:
    """Return the magnitude of every number.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    """
    return np.abs(x.astype(np.float64))


def exp(x: Floats) -> NDArray[np.float64]:
    """Return e to the power of every number.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    """
    return np.exp(x.astype(np.float64))


def log(x: Floats) -> NDArray[np.float64]:
    """Return the natural logarithm of every number, which is above 0.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    """
    return np.log(x.astype(np.float64))


def sin(x: Floats) -> NDArray[np.float64]:
    """Return the sine of every number.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Units: x in radians.
    """
    return np.sin(x.astype(np.float64))


def cos(x: Floats) -> NDArray[np.float64]:
    """Return the cosine of every number.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Units: x in radians.
    """
    return np.cos(x.astype(np.float64))


def sigmoid(x: Floats) -> NDArray[np.float64]:
    """Squeeze every number into (0, 1).

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    """
    # By tanh: exp(-x) overflows below -709.
    squeezed: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * x.astype(np.float64)))
    return squeezed


def clip(x: Floats, low: float, high: float) -> NDArray[np.float64]:
    """Move every number to the nearest of an interval.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Units: low and high have the unit of x.
    Raises: ValueError if the interval is empty.
    """
    if low > high:
        raise ValueError(f"expected low <= high, found {low} and {high}")
    return np.minimum(np.maximum(x.astype(np.float64), low), high)


def _same_shape(a: Floats, b: Floats) -> None:
    if a.shape != b.shape:
        raise ValueError(f"shapes differ; expected {a.shape}, found {b.shape}")


def cast_f32_to_i32(x: Floats) -> NDArray[np.int32]:
    """Return each number without its fraction.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError for a number that no 32-bit integer is next to.
    Source: IEEE 754-2019, section 5.8 (convertToIntegerTowardZero).
    """
    whole = np.trunc(x.astype(np.float64))
    if not (np.abs(whole) < 2.0**31).all():
        raise ValueError("numbers must be below 2^31 in size")
    return whole.astype(np.int32)


def cast_f32_to_bf16(x: Floats) -> NDArray[np.float64]:
    """Return the bfloat16 next to each number; of two, the one with an even end.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: Kalamkar et al. 2019, arXiv:1905.12322, section 3.
    """
    fraction, exponent = np.frexp(x.astype(np.float64))
    # 8 binary digits, fewer below the smallest normal number, 2^-126.
    place = np.maximum(exponent, -125) - 8
    y: NDArray[np.float64] = np.ldexp(
        np.rint(np.ldexp(fraction, exponent - place)), place
    )
    return np.where(np.abs(y) < 2.0**128, y, np.copysign(np.inf, y))


def cast_bf16_to_f32(x: NDArray[Any]) -> NDArray[np.float64]:
    """Return the same numbers.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: Kalamkar et al. 2019, arXiv:1905.12322, section 3.
    """
    return x.astype(np.float64)


def cast_i32_to_f32(x: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the float32 next to each integer; of two, the one with an even end.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: IEEE 754-2019, section 5.4.1 (convertFromInt).
    """
    fraction, exponent = np.frexp(x.astype(np.float64))
    # 24 binary digits; np.rint rounds halves to even.
    whole = np.rint(np.ldexp(fraction, 24))
    y: NDArray[np.float64] = np.ldexp(whole, exponent - 24)
    return y
