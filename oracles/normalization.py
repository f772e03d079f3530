"""Define what components/normalization must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]


def layer_norm(
    x: Floats, weight: Floats, bias: Floats, eps: float
) -> NDArray[np.float64]:
    """Give the last dimension zero mean and unit variance, then scale and shift it.

    Shapes: x [batch, seq, n_embd], weight, bias [n_embd] -> [batch, seq, n_embd].
    Units: eps is added to the variance.
    Source: Ba et al. 2016, arXiv:1607.06450, eq. 3 and 4.
    """
    exact = x.astype(np.float64)
    centred = exact - exact.mean(axis=-1, keepdims=True)
    # The paper's variance: divided by n_embd, not by n_embd - 1.
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normal: NDArray[np.float64] = centred / np.sqrt(variance + eps)
    return normal * weight + bias


def layer_norm_no_bias(x: Floats, weight: Floats, eps: float) -> NDArray[np.float64]:
    """Give the last dimension zero mean and unit variance, then scale it.

    Shapes: x [batch, seq, n_embd], weight [n_embd] -> [batch, seq, n_embd].
    Units: eps is added to the variance.
    Source: Ba et al. 2016, arXiv:1607.06450, eq. 3 and 4, without the bias.
    """
    return layer_norm(x, weight, np.zeros_like(weight), eps)


def l2_normalize(x: Floats, eps: float) -> NDArray[np.float64]:
    """Scale each row to unit Euclidean length.

    Shapes: x [batch, n_embd] -> [batch, n_embd].
    Units: eps is the least length to divide by, in the unit of x.
    Source: Schroff et al. 2015, arXiv:1503.03832, section 3; eps as in
        torch.nn.functional.normalize.
    """
    exact = x.astype(np.float64)
    length = np.sqrt(np.square(exact).sum(axis=-1, keepdims=True))
    unit: NDArray[np.float64] = exact / np.maximum(length, eps)
    return unit


def rms_norm(x: Floats, weight: Floats, eps: float) -> NDArray[np.float64]:
    """Scale each row of x to unit root mean square, then by weight.

    Shapes: x [batch, seq, n_embd], weight [n_embd] -> [batch, seq, n_embd].
    Units: eps is added to the mean square.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4.
    """
    exact = x.astype(np.float64)
    mean_square = np.square(exact).mean(axis=-1, keepdims=True)
    normal: NDArray[np.float64] = exact / np.sqrt(mean_square + eps)
    return normal * weight


def rms_norm_plus_one(x: Floats, weight: Floats, eps: float) -> NDArray[np.float64]:
    """Scale each row of x to unit root mean square, then by 1 + weight.

    Shapes: x [batch, seq, n_embd], weight [n_embd] -> [batch, seq, n_embd].
    Units: eps is added to the mean square.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4; 1 + weight: the published
        code of Gemma Team 2024, arXiv:2403.08295.
    """
    return rms_norm(x, 1.0 + weight.astype(np.float64), eps)


def rms_norm_heads(
    x: Floats, weight: Floats, eps: float, n_head: int
) -> NDArray[np.float64]:
    """Scale each head of x to unit root mean square, then by weight.

    Shapes: x [batch, seq, n_head*head_dim], weight [head_dim]
        -> [batch, seq, n_head*head_dim]; head h is columns h*head_dim to
        (h+1)*head_dim - 1.
    Units: eps is added to the mean square.
    Raises: ValueError if the weight is not as long as a head.
    Source: Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4, on the heads as in Gemma
        Team 2025, arXiv:2503.19786, section 2.
    """
    if weight.size * n_head != x.shape[-1]:
        found = f"{x.shape[-1]} columns"
        raise ValueError(f"expected {n_head} heads of {weight.size}, found {found}")
    heads = x.reshape(*x.shape[:-1], n_head, weight.size)
    return rms_norm(heads, weight, eps).reshape(x.shape)


def softmax(x: Floats) -> NDArray[np.float64]:
    """Return the exponentials of each row, divided by their sum.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: Bridle 1990, "Probabilistic Interpretation of Feedforward Classification
        Network Outputs", eq. 1.
    """
    exact = x.astype(np.float64)
    weight = np.exp(exact - exact.max(axis=-1, keepdims=True))
    share: NDArray[np.float64] = weight / weight.sum(axis=-1, keepdims=True)
    return share


def group_norm(
    x: Floats, weight: Floats, bias: Floats, eps: float, n_group: int
) -> NDArray[np.float64]:
    """Give each group of channels zero mean and unit variance; scale and shift each.

    Shapes: x [batch, n_group*n_in, n_row, n_col], weight, bias [n_group*n_in]
        -> [batch, n_group*n_in, n_row, n_col].
    Units: eps is added to the variance.
    Raises: ValueError if n_group does not divide the channels.
    Source: Wu & He 2018, arXiv:1803.08494, eq. 1 to 7.
    """
    batch, n_channel, n_row, n_col = x.shape
    if n_channel % n_group:
        raise ValueError(f"n_group must divide {n_channel} channels, found {n_group}")
    n_value = n_channel // n_group * n_row * n_col
    groups = x.reshape(batch, n_group, n_value)
    normal = layer_norm(groups, np.ones(n_value), np.zeros(n_value), eps)
    shaped = normal.reshape(x.shape)
    return shaped * weight[:, None, None] + bias[:, None, None]


def dyt(x: Floats, alpha: Floats, weight: Floats, bias: Floats) -> NDArray[np.float64]:
    """Squeeze all numbers by tanh, then scale and shift the columns.

    Shapes: x [batch, seq, n_embd], alpha [1], weight, bias [n_embd]
        -> [batch, seq, n_embd].
    Units: alpha has the inverse unit of x.
    Source: Zhu et al. 2025, arXiv:2503.10622, eq. 1 and algorithm 1.
    """
    bounded: NDArray[np.float64] = np.tanh(alpha.astype(np.float64) * x)
    return bounded * weight + bias
