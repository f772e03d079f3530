"""Compute the values of a table parameter: the rope angles.

The result has the same bits on every machine. The sine of a processor or a C library
may differ in the last bit of a float64, and rounding to float32 would then change the
archive. Powers are therefore computed in decimal arithmetic, and sine and cosine from
additions and multiplications only, which IEEE 754 defines to the last bit.

Source: Su et al. 2021, arXiv:2104.09864, eq. 15; sine and cosine: Sun's fdlibm,
    k_sin.c, k_cos.c and e_rem_pio2.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Array: TypeAlias = Any

# More digits than a float64 has, so that rounding to float64 is correct.
_DIGITS = 40

# Pi / 2 in three parts of 33 bits: the product with a count of quarter turns below 2^20
# is exact.
_QUARTER = (1.57079632673412561417e00, 6.07710050630396597660e-11)
_QUARTER_REST = 2.02226624879595063154e-21

_SIN = (
    -1.66666666666666324348e-01,
    8.33333333332248946124e-03,
    -1.98412698298579493134e-04,
    2.75573137070700676789e-06,
    -2.50507602534068634195e-08,
    1.58969099521155010221e-10,
)
_COS = (
    4.16666666666666019037e-02,
    -1.38888888888741095749e-03,
    2.48015872894767294178e-05,
    -2.75573143513906633035e-07,
    2.08757232129817482790e-09,
    -1.13596475577881948265e-11,
)


@dataclass(frozen=True, slots=True)
class RopeTable:
    """What the angles of a table are computed from."""

    base: float
    # By which the angle of each pair is multiplied; empty if it stays as it is.
    multipliers: tuple[float, ...] = ()
    # By which cosines and sines are multiplied: scores of attention, by its square.
    attention_factor: float = 1.0

    def __str__(self) -> str:
        """Return what it is computed from, for messages and reports."""
        scaled = ", scaled" if self.multipliers else ""
        return f"rope, base {self.base:g}{scaled}"


def rope_blocks(
    shape: tuple[int, ...], table: RopeTable, count: int
) -> Iterator[Array]:
    """Yield the rows of a table of angles: cosines and then sines per position.

    Angle i of position p is p * base^(-2i / n_rot) * multipliers[i].

    Shapes: shape is [n_ctx, n_rot] -> [up to count / n_rot, n_rot], float32.
    """
    import numpy as np

    n_ctx, n_rot = shape
    frequencies = np.array(_frequencies(n_rot, table))
    step = max(1, count // n_rot)
    for start in range(0, n_ctx, step):
        positions = np.arange(start, min(start + step, n_ctx), dtype=np.float64)
        cosines, sines = _cos_sin(positions[:, None] * frequencies)
        rows = np.concatenate([cosines, sines], axis=1) * table.attention_factor
        yield rows.astype("<f4")


def _frequencies(n_rot: int, table: RopeTable) -> list[float]:
    # Imported late, because planning imports this module but does not need NumPy.
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = _DIGITS
        base, half = Decimal(table.base), n_rot // 2
        return [
            float(base ** (Decimal(-2 * i) / n_rot) * Decimal(multiplier))
            for i, multiplier in enumerate(table.multipliers or (1.0,) * half)
        ]


def _cos_sin(angles: Array) -> tuple[Array, Array]:
    """Return cosine and sine of angles from 0 to 2^20 quarter turns."""
    import numpy as np

    turns = np.rint(angles * (2 / np.pi))
    near = angles - turns * _QUARTER[0]
    rest = near - turns * _QUARTER[1]
    # The rounding error of the subtraction, less the remaining part of pi / 2.
    tail = (near - rest) - turns * _QUARTER[1] - turns * _QUARTER_REST
    x = rest + tail
    y = (rest - x) + tail
    z = x * x
    sine = x + (x * z * _polynomial(_SIN, z) + y * (1 - 0.5 * z))
    half = 0.5 * z
    top = 1 - half
    cosine = top + (((1 - top) - half) + (z * z * _polynomial(_COS, z) - x * y))
    quarter = turns.astype(np.int64) & 3
    swapped = quarter & 1 == 1
    cosines = np.where(swapped, sine, cosine)
    sines = np.where(swapped, cosine, sine)
    return (
        np.where((quarter == 1) | (quarter == 2), -cosines, cosines),
        np.where(quarter >= 2, -sines, sines),
    )


def _polynomial(coefficients: tuple[float, ...], z: Array) -> Array:
    value = 0.0 * z
    for coefficient in reversed(coefficients):
        value = value * z + coefficient
    return value
