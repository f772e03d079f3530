"""The parts of a decoder's layer as their papers have them, each in one formula.

The oracle of a model is its components' oracles one after the other; these judge what
that comes to, and share nothing with them. float32 in, float64 out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Exact = NDArray[np.float64]
Weights = Mapping[str, NDArray[Any]]
"""By GGUF's names, without the layer's."""

_MATRICES = ("gate", "up", "down")


def attention_block(
    hidden: Exact,
    weights: Weights,
    heads: tuple[int, int],
    numbers: Mapping[str, float],
    *,
    causal: bool,
    biases: bool,
) -> Exact:
    """Let the positions of one sequence attend to each other, and add what they were.

    Shapes: hidden [seq, n_embd] from position 0 on; heads are n_head and n_head_kv
        -> [seq, n_embd].
    Units: numbers are rms_norm_eps, rope_freq_base and attention_scale.
    Source: Vaswani et al. 2017, arXiv:1706.03762, eq. 1 and section 3.2.2; norm:
        arXiv:1910.07467, eq. 4; heads: arXiv:2305.13245; positions: Su et al. 2021,
        arXiv:2104.09864, eq. 12 (a pair as a complex number).
    """
    n_head, n_head_kv = heads
    hidden = hidden.astype(np.float64)
    root = np.sqrt((hidden**2).mean(axis=1, keepdims=True) + numbers["rms_norm_eps"])
    x = hidden / root * weights["attn_norm.weight"]

    def projected(name: str, count: int) -> Exact:
        y = x @ weights[f"attn_{name}.weight"].astype(np.float64).T
        if biases:
            y = y + weights[f"attn_{name}.bias"]
        split: Exact = y.reshape(len(x), count, -1)
        return split

    base = numbers["rope_freq_base"]
    q = _turned(projected("q", n_head), base)
    k = _turned(projected("k", n_head_kv), base)
    v = projected("v", n_head_kv)
    positions = np.arange(len(x))
    is_seen = positions[None, :] <= positions[:, None] if causal else True
    made = np.empty_like(q)
    for head in range(n_head):
        shared = head * n_head_kv // n_head
        score = numbers["attention_scale"] * (q[:, head] @ k[:, shared].T)
        weight = np.where(is_seen, np.exp(score), 0.0)
        made[:, head] = weight / weight.sum(axis=1, keepdims=True) @ v[:, shared]
    output = weights["attn_output.weight"].astype(np.float64)
    joined: Exact = hidden + made.reshape(len(x), -1) @ output.T
    return joined


def moe_ffn_block(
    hidden: Exact, weights: Weights, n_expert_used: int, *, routing: str, shared: bool
) -> Exact:
    """Add up what the best experts make of one row, by their shares.

    Shares are the softmax over all experts ("raw"), that divided by the sum of the
    chosen ("normalized"), or the softmax over the chosen logits alone ("chosen").

    Shapes: hidden [n_embd] -> [n_embd].
    Source: Shazeer et al. 2017, arXiv:1701.06538, eq. 1 to 5; Jiang et al. 2024,
        arXiv:2401.04088, section 2.1; shared: Qwen Team 2024, Qwen1.5-MoE.
    """
    x = hidden.astype(np.float64)
    logits = weights["ffn_gate_inp.weight"].astype(np.float64) @ x
    best = sorted(range(len(logits)), key=lambda expert: -logits[expert])
    best = best[:n_expert_used]
    among = best if routing == "chosen" else list(range(len(logits)))
    total = sum(np.exp(logits[expert]) for expert in among)
    share = {expert: np.exp(logits[expert]) / total for expert in best}
    if routing == "normalized":
        chosen = sum(share.values())
        share = {expert: part / chosen for expert, part in share.items()}
    y = np.zeros_like(x)
    for expert, part in share.items():
        gate, up, down = (
            weights[f"ffn_{name}_exps.weight"][expert]
            for name in ("gate", "up", "down")
        )
        y += part * _swiglu(x, gate, up, down)
    if shared:
        opening = weights["ffn_gate_inp_shexp.weight"][0].astype(np.float64) @ x
        gate, up, down = (
            weights[f"ffn_{name}_shexp.weight"] for name in ("gate", "up", "down")
        )
        y += _swiglu(x, gate, up, down) / (1 + np.exp(-opening))
    return y


def _swiglu(x: Exact, *matrices: NDArray[Any]) -> Exact:
    """Return the feed-forward part of one expert.

    Shapes: x [n_embd]; gate, up [n_ff, n_embd], down [n_embd, n_ff] -> [n_embd].
    Source: Shazeer 2020, arXiv:2002.05202, eq. 6.
    """
    gate, up, down = (matrix.astype(np.float64) for matrix in matrices)
    opening = gate @ x
    y: Exact = down @ (opening / (1 + np.exp(-opening)) * (up @ x))
    return y


def _turned(x: Exact, base: float) -> Exact:
    """Turn the pairs of each head by the angles of their positions.

    Shapes: x [seq, n_head, head_dim], of pairs (i, i + head_dim/2) -> the same.
    """
    half = x.shape[2] // 2
    angle = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    pair = x[..., :half] + 1j * x[..., half:]
    turned = pair * np.exp(1j * angle)[:, None, :]
    return np.concatenate([turned.real, turned.imag], axis=2)
