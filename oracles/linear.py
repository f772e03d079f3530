"""Define what components/linear must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def linear_bias(x: Floats, weight: Floats, bias: Floats) -> NDArray[np.float64]:
    """Map each row of x by the weight, stored [out, in], and add the bias.

    Shapes: x [batch, seq, n_in], weight [n_out, n_in], bias [n_out]
        -> [batch, seq, n_out].
    Source: torch.nn.Linear.
    """
    return x.astype(np.float64) @ weight.astype(np.float64).T + bias


def linear(x: Floats, weight: Floats) -> NDArray[np.float64]:
    """Map each row of x by the weight, stored [out, in].

    Shapes: x [batch, seq, n_in], weight [n_out, n_in] -> [batch, seq, n_out].
    Source: torch.nn.Linear without bias.
    """
    return x.astype(np.float64) @ weight.astype(np.float64).T


def matmul(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the product of two matrices, for every sequence.

    Shapes: a [batch, seq, n_in], b [batch, n_in, n_out] -> [batch, seq, n_out].
    """
    return a.astype(np.float64) @ b.astype(np.float64)


def matmul_transposed(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the product of two matrices, the second one stored [out, in].

    Shapes: a [batch, seq, n_in], b [batch, n_out, n_in] -> [batch, seq, n_out].
    """
    return matmul(a, b.transpose(0, 2, 1))


def einsum(a: Floats, b: Floats) -> NDArray[np.float64]:
    """Return the products of all rows of two tensors, head by head.

    Shapes: a [batch, n_head, seq, head_dim], b [batch, n_head, ctx, head_dim]
        -> [batch, n_head, seq, ctx].
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1.
    """
    return a.astype(np.float64) @ b.astype(np.float64).transpose(0, 1, 3, 2)
