"""Define what components/moe must compute; the results are float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Ids = NDArray[np.int32]


def expert_router(
    logits: Floats, n_expert_used: int
) -> tuple[Ids, NDArray[np.float64]]:
    """Return the experts with the largest logits, best first, and their shares.

    Of equal logits the lower number comes first. Shares are those of all experts'
    softmax. Not for NaN: any experts will do, and the shares say nothing.

    Shapes: logits [batch, seq, n_expert] -> ids and shares [batch, seq, n_expert_used].
    Raises: ValueError if there are fewer experts.
    Source: Shazeer et al. 2017, arXiv:1701.06538, section 2.1.
    """
    if not 1 <= n_expert_used <= logits.shape[-1]:
        found = f"{n_expert_used} of {logits.shape[-1]}"
        raise ValueError(f"expected 1 expert or more, and no more than all; {found}")
    exact = logits.astype(np.float64)
    weight = np.exp(exact - exact.max(axis=-1, keepdims=True))
    share = weight / weight.sum(axis=-1, keepdims=True)
    ids = np.argsort(-exact, axis=-1, kind="stable")[..., :n_expert_used]
    return ids.astype(np.int32), np.take_along_axis(share, ids, axis=-1)


def renormalize(share: Floats) -> NDArray[np.float64]:
    """Divide the shares of each row by their sum.

    Shapes: share [batch, seq, n_expert_used] -> [batch, seq, n_expert_used].
    Source: Jiang et al. 2024, arXiv:2401.04088, section 2.1.
    """
    exact = share.astype(np.float64)
    y: NDArray[np.float64] = exact / exact.sum(axis=-1, keepdims=True)
    return y


def mul_mat_id(weight: Floats, ids: Ids, x: Floats) -> NDArray[np.float64]:
    """Multiply each row by the matrix of each of its experts.

    Shapes: weight [n_expert, n_out, n_in], ids [batch, seq, n_expert_used],
        x [batch, seq, n_in] -> [batch, seq, n_expert_used*n_out].
    Raises: ValueError if there is no such expert.
    Source: Shazeer et al. 2017, arXiv:1701.06538, eq. 1.
    """
    each: NDArray[np.float64] = np.tile(x.astype(np.float64), (1, 1, ids.shape[-1]))
    return mul_mat_id_per_expert_x(weight, ids, each)


def mul_mat_id_per_expert_x(weight: Floats, ids: Ids, x: Floats) -> NDArray[np.float64]:
    """Multiply what each row has for an expert by the matrix of that expert.

    Shapes: weight [n_expert, n_out, n_in], ids [batch, seq, n_expert_used],
        x [batch, seq, n_expert_used*n_in] -> [batch, seq, n_expert_used*n_out].
    Raises: ValueError if there is no such expert.
    Source: Shazeer et al. 2017, arXiv:1701.06538, eq. 1.
    """
    n_expert, n_out, n_in = weight.shape
    if ids.min(initial=0) < 0 or ids.max(initial=0) >= n_expert:
        found = f"{ids.min()} to {ids.max()}"
        raise ValueError(f"ids must be below n_expert = {n_expert}, found {found}")
    rows = x.reshape(*ids.shape, n_in).astype(np.float64)
    y = np.empty((*ids.shape, n_out), dtype=np.float64)
    # Expert by expert: a float64 copy of all of them may not fit the memory.
    for expert in np.unique(ids):
        y[ids == expert] = rows[ids == expert] @ weight[expert].astype(np.float64).T
    return y.reshape(*ids.shape[:2], ids.shape[2] * n_out)


def mul_mat_id_packed(weight: NDArray[Any], ids: Ids, x: Floats) -> NDArray[np.float64]:
    """Do what `mul_mat_id` does, from matrices that are stored in tiles.

    Shapes: weight [n_expert, n_tile, n_in, tile_n], ids [batch, seq, n_expert_used],
        x [batch, seq, n_in] -> [batch, seq, n_expert_used*n_tile*tile_n].
    Raises: ValueError if there is no such expert.
    Source: doi:10.1145/1356052.1356053 (packed panels).
    """
    return mul_mat_id(_unpacked(weight), ids, x)


def mul_mat_id_per_expert_x_packed(
    weight: NDArray[Any], ids: Ids, x: Floats
) -> NDArray[np.float64]:
    """Do what `mul_mat_id_per_expert_x` does, from matrices that are stored in tiles.

    Shapes: weight [n_expert, n_tile, n_in, tile_n], ids [batch, seq, n_expert_used],
        x [batch, seq, n_expert_used*n_in] -> [batch, seq, n_expert_used*n_tile*tile_n].
    Raises: ValueError if there is no such expert.
    Source: doi:10.1145/1356052.1356053 (packed panels).
    """
    return mul_mat_id_per_expert_x(_unpacked(weight), ids, x)


def mul_mat_id_packed_i8(
    weight: NDArray[np.int8], weight_scale: Floats, ids: Ids, x: Floats
) -> NDArray[np.float64]:
    """Do what `mul_mat_id_packed` does, with integers and a scale a row.

    Shapes: weight_scale [n_expert, n_tile, tile_n], the others as `mul_mat_id_packed`.
    Raises: ValueError if there is no such expert.
    Source: Jacob et al. 2018, arXiv:1712.05877, section 2.1.
    """
    return mul_mat_id(_unpacked(weight), ids, x) * _row_scales(weight_scale, ids)


def mul_mat_id_per_expert_x_packed_i8(
    weight: NDArray[np.int8], weight_scale: Floats, ids: Ids, x: Floats
) -> NDArray[np.float64]:
    """Do what `mul_mat_id_per_expert_x_packed` does, with integers and a scale a row.

    Shapes: weight_scale [n_expert, n_tile, tile_n], the others as
        `mul_mat_id_per_expert_x_packed`.
    Raises: ValueError if there is no such expert.
    Source: Jacob et al. 2018, arXiv:1712.05877, section 2.1.
    """
    return mul_mat_id_per_expert_x(_unpacked(weight), ids, x) * _row_scales(
        weight_scale, ids
    )


def expert_sum(share: Floats, x: Floats) -> NDArray[np.float64]:
    """Add up what the chosen experts made of each row, by their shares.

    Shapes: share [batch, seq, n_expert_used], x [batch, seq, n_expert_used*n_embd]
        -> [batch, seq, n_embd].
    Source: Shazeer et al. 2017, arXiv:1701.06538, eq. 1.
    """
    n_embd = x.shape[-1] // share.shape[-1]
    parts = x.reshape(*share.shape, n_embd).astype(np.float64)
    y: NDArray[np.float64] = (parts * share[..., None]).sum(axis=2)
    return y


def sigmoid_gate(x: Floats, gate: Floats) -> NDArray[np.float64]:
    """Multiply each row by the sigmoid of its one number.

    Shapes: x [batch, seq, n_embd], gate [batch, seq, 1] -> [batch, seq, n_embd].
    Source: Qwen Team 2024, Qwen1.5-MoE (modeling_qwen2_moe.py, shared_expert_gate).
    """
    y: NDArray[np.float64] = x / (1 + np.exp(-gate.astype(np.float64)))
    return y


def _row_scales(weight_scale: Floats, ids: Ids) -> NDArray[np.float64]:
    """Return the scale of each row of each chosen expert.

    Shapes: weight_scale [n_expert, n_tile, tile_n], ids [batch, seq, n_expert_used]
        -> [batch, seq, n_expert_used*n_tile*tile_n].
    """
    chosen = weight_scale.astype(np.float64)[ids]
    width = ids.shape[2] * weight_scale[0].size
    return chosen.reshape(*ids.shape[:2], width)


def _unpacked(weight: NDArray[Any]) -> NDArray[Any]:
    """Return matrices as they were before they were stored in tiles.

    Shapes: [n_expert, n_tile, n_in, tile_n] -> [n_expert, n_tile*tile_n, n_in].
    """
    n_expert, n_tile, n_in, tile_n = weight.shape
    rows = np.moveaxis(weight, 3, 2)
    return rows.reshape(n_expert, n_tile * tile_n, n_in)
