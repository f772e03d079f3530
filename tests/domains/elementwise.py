"""What the arguments of elementwise maps mean."""

from __future__ import annotations

import numpy as np

from tests.component_cases import Draw


def apart_from_zero(draw: Draw) -> np.ndarray:
    """Return numbers of both signs that a division keeps the size of."""
    sign = draw.rng.choice([-1.0, 1.0], draw.shape)
    return sign * draw.rng.uniform(0.5, 2.0, draw.shape)


def positive(draw: Draw) -> np.ndarray:
    """Return positive numbers from next to nothing to very large ones."""
    return np.exp(draw.rng.uniform(-60, 60, draw.shape))


def turns(draw: Draw) -> np.ndarray:
    """Return angles of many turns, and of less than one."""
    return draw.rng.uniform(-1, 1, draw.shape) * (8192 if draw.variant else 7)


def wide(draw: Draw) -> np.ndarray:
    """Return numbers on both sides of where an exponential is flat."""
    return draw.rng.uniform(-20, 20, draw.shape)


def fractions(draw: Draw) -> np.ndarray:
    """Return numbers of both signs with whole parts of some digits."""
    return draw.rng.uniform(-9999, 9999, draw.shape)


def integers(draw: Draw) -> np.ndarray:
    """Return integers with more digits than f32 has."""
    return draw.rng.integers(-(2**30), 2**30, draw.shape)


def halves(draw: Draw) -> np.ndarray:
    """Return numbers of which a third lie in the middle of two of bfloat16."""
    bits = draw.rng.standard_normal(draw.shape, dtype=np.float32).view(np.uint32)
    middle = bits & 0xFFFF0000 | 0x8000
    return np.where(draw.rng.random(draw.shape) < 1 / 3, middle, bits).view(np.float32)


VALUES = {
    "cast_f32_to_bf16.x": halves,
    "cast_f32_to_i32.x": fractions,
    "cast_i32_to_f32.x": integers,
    "div.b": apart_from_zero,
    "log.x": positive,
    "sin.x": turns,
    "cos.x": turns,
    "exp.x": wide,
    "sigmoid.x": wide,
}
SCALARS = {"low": (-0.5, 0.25), "high": (0.75, 0.5), "factor": (0.625, -1.5)}
VARIANTS = {"sin": 2, "cos": 2}
# A term of their series is less than the sums of other components may be wrong.
DIGITS = {"sin": 5e-7, "cos": 5e-7}
