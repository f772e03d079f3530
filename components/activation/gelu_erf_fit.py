"""Prints d1 to d8 of gelu_erf.mlir, and the largest error that they leave.

S(a) = (2 * P(Z > a))^(-1/8) is nearly a polynomial. Its minimax fit, weighted by what
an error of S does to a * P(Z > a), is found by Lawson's iteration: least squares,
repeated with more weight where the error is large. Needs NumPy alone; run it again to
check the numbers.
"""

from __future__ import annotations

import math

import numpy as np

POWER = 8
TERMS = 8
# a * P(Z > a) is 6e-9 here, and falls: further points would not change the fit.
LAST = 6.0
ROUNDS = 3000


def main() -> None:
    """Fit, and print the coefficients as f32 holds them."""
    a = np.linspace(1e-6, LAST, 6000)
    tail = np.array([math.erfc(point / math.sqrt(2.0)) / 2.0 for point in a])
    s = (2.0 * tail) ** (-1.0 / POWER)
    slope = a / 2.0 * POWER * s ** (-POWER - 1)
    # S(0) = 1 exactly: the fit is of (S - 1) / a, in Chebyshev polynomials.
    basis = np.polynomial.chebyshev.chebvander(2.0 * a / LAST - 1.0, TERMS - 1)
    basis = basis * a[:, None]
    weight, best, found = np.ones_like(a), math.inf, np.zeros(TERMS)
    for _ in range(ROUNDS):
        scale = np.sqrt(weight) * slope
        fit = np.linalg.lstsq(basis * scale[:, None], (s - 1.0) * scale)[0]
        error = np.abs(a / 2.0 * (1.0 + basis @ fit) ** -POWER - a * tail)
        if error.max() < best:
            best, found = error.max(), fit
        weight *= error / error.max() + 1e-3
        weight /= weight.max()
    series = np.polynomial.chebyshev.Chebyshev(found, domain=[0.0, LAST])
    monomials = series.convert(kind=np.polynomial.Polynomial).coef
    for number, value in enumerate(monomials, start=1):
        print(f"d{number} = {np.float32(value):.9g}")
    print(f"largest error of a * P(Z > a): {best:.1e}")


if __name__ == "__main__":
    main()
