"""List the dims of real models at which components are tested."""

from __future__ import annotations

from collections.abc import Mapping

from ingot.model.graph import Instance
from ingot.model.manifest import read_manifest
from tests.component_cases import ROOT, instance_of, signature_of

CAUSAL = {"n_layer": 3, "block_size": 64}

# Of Gemma 3 270M, SmolLM2 135M, Qwen 2 0.5B, Qwen 3 0.6B, gpt-oss, Whisper, SigLIP,
# Qwen 2 VL, Stable Diffusion and mixtures of experts; rows of tables, experts, groups
# and places alone are fewer: they are addresses, and make the same code.
REAL_SIZES: Mapping[str, tuple[dict[str, int], ...]] = {
    "activation/geglu_tanh": ({"n_ff": 2048},),
    "activation/swiglu": ({"n_ff": 1536}, {"n_ff": 4864}),
    "attention/attention_causal:alone": (
        {**CAUSAL, "n_head": 4, "n_head_kv": 1, "head_dim": 256},
        {**CAUSAL, "n_head": 9, "n_head_kv": 3, "head_dim": 64},
        {**CAUSAL, "n_head": 14, "n_head_kv": 2, "head_dim": 64},
        {**CAUSAL, "n_head": 16, "n_head_kv": 8, "head_dim": 128},
        {**CAUSAL, "n_head": 2, "n_head_kv": 2, "head_dim": 64},
    ),
    "attention/attention_causal": (
        {**CAUSAL, "n_head": 64, "n_head_kv": 8, "head_dim": 64},
    ),
    "attention/attention_paged": (
        {"n_layer": 3, "n_head": 32, "n_head_kv": 8, "head_dim": 128, "block_size": 16},
    ),
    "attention/attention_paged_decode": (
        {"n_layer": 3, "n_head": 32, "n_head_kv": 8, "head_dim": 128, "block_size": 16},
    ),
    "audio/stft": (
        {"n_sample": 2002, "n_window": 400, "n_hop": 160, "n_frame": 11, "n_bin": 201},
    ),
    "cache/kv_cache_update": (
        {"n_layer": 18, "n_embd_kv": 256},
        {"n_layer": 3, "n_embd_kv": 192},
    ),
    "cache/paged_cache_update": ({"n_layer": 3, "n_embd_kv": 1024, "block_size": 16},),
    "convolution/conv1d": (
        {
            **{"n_group": 1, "n_in": 384, "n_out": 384},
            **{"n_step": 200, "k_step": 3, "stride": 2, "y_step": 100},
        },
    ),
    "convolution/conv2d": (
        {
            **{"n_group": 1, "n_in": 3, "n_out": 1152},
            **{"n_row": 112, "k_row": 14, "stride_row": 14, "y_row": 8},
            **{"n_col": 112, "k_col": 14, "stride_col": 14, "y_col": 8},
        },
    ),
    "convolution/conv3d": (
        {
            **{"n_group": 1, "n_in": 3, "n_out": 1280},
            **{"n_frame": 2, "k_frame": 2, "stride_frame": 2, "y_frame": 1},
            **{"n_row": 28, "k_row": 14, "stride_row": 14, "y_row": 2},
            **{"n_col": 42, "k_col": 14, "stride_col": 14, "y_col": 3},
        },
    ),
    "convolution/interpolate_bilinear": (
        {"n_channel": 8, "n_row": 37, "n_col": 37, "y_row": 74, "y_col": 74},
    ),
    "convolution/interpolate_nearest": (
        {"n_channel": 8, "n_row": 32, "n_col": 32, "y_row": 64, "y_col": 64},
    ),
    "elementwise/soft_cap": ({"n_vocab": 49152, "seq": 1},),
    "embedding/embedding_lookup_scaled": ({"n_vocab": 4096, "n_embd": 640},),
    "linear/linear": (
        {"n_in": 640, "n_out": 1024},
        {"n_in": 576, "n_out": 192},
        {"n_in": 4864, "n_out": 896},
        {"n_in": 576, "n_out": 49152, "seq": 1},
    ),
    "moe/expert_router": (
        {"n_expert": 8, "n_expert_used": 2},
        {"n_expert": 60, "n_expert_used": 4},
    ),
    "moe/mul_mat_id": ({"n_expert": 5, "n_expert_used": 2, "n_in": 1408, "n_out": 48},),
    # Rows so long that no tile of them fits the stack.
    **{
        f"moe/mul_mat_id_per_expert_x_packed{stored}": (
            {"n_expert": 3, "n_expert_used": 2, "n_tile": 6, "n_in": 8192, "tile_n": 8},
        )
        for stored in (":bf16", "_i8")
    },
    "moe/mul_mat_id_packed:f32": (
        {"n_expert": 5, "n_expert_used": 4, "n_tile": 22, "n_in": 2048, "tile_n": 8},
    ),
    "normalization/group_norm": ({"n_group": 2, "n_in": 10, "n_row": 64, "n_col": 64},),
    "normalization/rms_norm": ({"n_embd": 576}, {"n_embd": 1024}),
    "normalization/rms_norm_heads": (
        {"n_head": 1, "head_dim": 256},
        {"n_head": 16, "head_dim": 128},
    ),
    "normalization/rms_norm_plus_one": ({"n_embd": 640},),
    "position/rope": (
        {"n_ctx": 4096, "n_rot": 256, "n_head": 1, "head_dim": 256},
        {"n_ctx": 4096, "n_rot": 64, "n_head": 9, "head_dim": 64},
        {"n_ctx": 4096, "n_rot": 32, "n_head": 32, "head_dim": 80},
    ),
    "position/rope_interleaved": (
        {"n_ctx": 4096, "n_rot": 64, "n_head": 9, "head_dim": 64},
        {"n_ctx": 4096, "n_rot": 64, "n_head": 16, "head_dim": 256},
    ),
    "position/rope_multimodal": ({"n_ctx": 4096, "n_head": 12, "head_dim": 128},),
    "position/rope_vision": (
        {"n_ctx": 4096, "n_rot": 40, "n_head": 16, "head_dim": 80},
    ),
    "sequence/last_position": ({"n_embd": 640},),
    "shape/permute": ({"n_head": 16, "head_dim": 128},),
    "shape/repeat": ({"n_head": 14, "n_head_kv": 2, "head_dim": 64},),
    "shape/split": ({"n_ff": 4864},),
}


def real_instances() -> dict[str, Instance]:
    """Return the instances at real dims by name, with seq dynamic and with seq 1."""
    model = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
    found = {item.name: item for item in model.graph.instances}
    for component, rows in REAL_SIZES.items():
        signature = signature_of(component)
        steps = ({}, {"seq": 1}) if "seq" in signature.dynamic else ({},)
        for row in rows:
            for sizes in (row | step for step in steps):
                item = instance_of(signature, sizes)
                found[item.name] = item
    return found
