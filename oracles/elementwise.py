"""Elementwise maps: the truth for components/elementwise; float32 in, float64 out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def add(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the sum of two tensors of one shape.

    Shapes: a, b [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the shapes differ: the component does not broadcast.
    Source: He et al. 2015, arXiv:1512.03385, eq. 1.
    """
    if a.shape != b.shape:
        raise ValueError(f"shapes differ; expected {a.shape}, found {b.shape}")
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


def clip(x: Floats, low: float, high: float) -> NDArray[np.float64]:
    """Bring all numbers into a range.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Units: low and high have the unit of x.
    Raises: ValueError if the range is empty.
    Source: Mosaic Research 2024, DBRX (modeling_dbrx.py, clip_qkv).
    """
    if low > high:
        raise ValueError(f"expected low <= high, found {low} > {high}")
    return np.clip(x.astype(np.float64), low, high)


def scale(x: Floats, factor: float) -> NDArray[np.float64]:
    """Multiply every number by one factor.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: xAI 2024, grok-1 (model.py, output_multiplier_scale).
    """
    y: NDArray[np.float64] = x.astype(np.float64) * factor
    return y
