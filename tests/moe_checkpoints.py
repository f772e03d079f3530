"""Write small checkpoints of mixtures of experts in the forms of Hugging Face.

Names and shapes are written by hand, not taken from models/architectures.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ingot.model.manifest import Manifest, read_manifest
from tests.import_cases import write_config
from tests.weights_cases import save

Arrays = Mapping[str, Any]
Config = dict[str, Any]

_LLAMA: Config = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 40,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
CONFIGS: dict[str, Config] = {
    "mixtral": {
        **_LLAMA,
        "architectures": ["MixtralForCausalLM"],
        "model_type": "mixtral",
        "intermediate_size": 48,
        "num_local_experts": 4,
        "sliding_window": None,
    },
    "qwen2moe": {
        **_LLAMA,
        "architectures": ["Qwen2MoeForCausalLM"],
        "model_type": "qwen2_moe",
        "intermediate_size": 80,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 40,
        "num_experts": 6,
        "decoder_sparse_step": 1,
        "norm_topk_prob": False,
        "sliding_window": 32,
        "use_sliding_window": False,
    },
    "dbrx": {
        "architectures": ["DbrxForCausalLM"],
        "model_type": "dbrx",
        "vocab_size": 96,
        "d_model": 32,
        "n_heads": 4,
        "n_layers": 2,
        "max_seq_len": 40,
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 2, "rope_theta": 500000},
        "ffn_config": {"ffn_hidden_size": 24, "moe_num_experts": 4, "moe_top_k": 2},
        "tie_word_embeddings": False,
    },
    "grok": {
        **{key: value for key, value in _LLAMA.items() if key != "rope_theta"},
        "architectures": ["Grok1ModelForCausalLM"],
        "model_type": "grok-1",
        "intermediate_size": 48,
        "num_experts": 4,
        "attn_output_multiplier": 0.25,
        "max_attn_value": 30.0,
        "embedding_multiplier_scale": 78.38367176906169,
        "output_multiplier_scale": 0.5773502691896257,
        "tie_word_embeddings": True,
    },
}
"""By architecture: what config.json says of a small model."""

_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
}
_MIXTRAL = {
    **_LAYER,
    "ffn_gate_inp.weight": "block_sparse_moe.gate.weight",
    "ffn_gate_exps.weight": "block_sparse_moe.experts.*.w1.weight",
    "ffn_down_exps.weight": "block_sparse_moe.experts.*.w2.weight",
    "ffn_up_exps.weight": "block_sparse_moe.experts.*.w3.weight",
}
_QWEN2_MOE = {
    **_LAYER,
    "attn_q.bias": "self_attn.q_proj.bias",
    "attn_k.bias": "self_attn.k_proj.bias",
    "attn_v.bias": "self_attn.v_proj.bias",
    "ffn_gate_inp.weight": "mlp.gate.weight",
    "ffn_gate_exps.weight": "mlp.experts.*.gate_proj.weight",
    "ffn_up_exps.weight": "mlp.experts.*.up_proj.weight",
    "ffn_down_exps.weight": "mlp.experts.*.down_proj.weight",
    "ffn_gate_inp_shexp.weight": "mlp.shared_expert_gate.weight",
    "ffn_gate_shexp.weight": "mlp.shared_expert.gate_proj.weight",
    "ffn_up_shexp.weight": "mlp.shared_expert.up_proj.weight",
    "ffn_down_shexp.weight": "mlp.shared_expert.down_proj.weight",
}
_GROK = {
    "attn_norm.weight": "pre_attn_norm.scale",
    "attn_q.weight": "attn.q_proj.weight",
    "attn_k.weight": "attn.k_proj.weight",
    "attn_v.weight": "attn.v_proj.weight",
    "attn_output.weight": "attn.o_proj.weight",
    "attn_output_norm.weight": "post_attn_norm.scale",
    "ffn_norm.weight": "pre_moe_norm.scale",
    "ffn_gate_inp.weight": "moe_block.gate.weight",
    "ffn_gate_exps.weight": "moe_block.experts.*.linear.weight",
    "ffn_up_exps.weight": "moe_block.experts.*.linear_v.weight",
    "ffn_down_exps.weight": "moe_block.experts.*.linear_1.weight",
    "layer_output_norm.weight": "post_moe_norm.scale",
}


def llama_names(arrays: Arrays, layer_names: Mapping[str, str]) -> dict[str, Any]:
    """Return the arrays by transformers' names, those of experts one by one."""
    found = {theirs: arrays[ours] for ours, theirs in _WHOLE.items()}
    for layer in range(2):
        for ours, theirs in layer_names.items():
            values, name = arrays[f"blk.{layer}.{ours}"], f"model.layers.{layer}."
            if "*" not in theirs:
                found[name + theirs] = values
                continue
            for expert, matrix in enumerate(values):
                found[name + theirs.replace("*", str(expert))] = matrix
    return found


def dbrx_names(arrays: Arrays) -> dict[str, Any]:
    """Return the arrays by transformers' names, joined and turned as DBRX has them."""
    found = {
        "transformer.wte.weight": arrays["token_embd.weight"],
        "transformer.norm_f.weight": arrays["output_norm.weight"],
        "lm_head.weight": arrays["output.weight"],
    }
    for layer in range(2):
        own, name = f"blk.{layer}.", f"transformer.blocks.{layer}."
        attn, ffn = f"{name}norm_attn_norm.", f"{name}ffn."
        queries = [arrays[f"{own}attn_{part}.weight"] for part in "qkv"]
        down = arrays[f"{own}ffn_down_exps.weight"]
        found |= {
            f"{attn}norm_1.weight": arrays[f"{own}attn_norm.weight"],
            f"{attn}norm_2.weight": arrays[f"{own}attn_output_norm.weight"],
            f"{attn}attn.Wqkv.weight": np.concatenate(queries),
            f"{attn}attn.out_proj.weight": arrays[f"{own}attn_output.weight"],
            f"{ffn}router.layer.weight": arrays[f"{own}ffn_gate_inp.weight"],
            f"{ffn}experts.mlp.w1": np.concatenate(
                arrays[f"{own}ffn_gate_exps.weight"]
            ),
            f"{ffn}experts.mlp.v1": np.concatenate(arrays[f"{own}ffn_up_exps.weight"]),
            f"{ffn}experts.mlp.w2": np.concatenate([matrix.T for matrix in down]),
        }
    return found


def hf_names(architecture: str, arrays: Arrays) -> dict[str, Any]:
    """Return the tensors that a checkpoint of the architecture has."""
    if architecture == "dbrx":
        return dbrx_names(arrays)
    if architecture == "grok":
        # It has the embedding a second time, under the head's name.
        head = arrays["token_embd.weight"]
        found = llama_names({**arrays, "output.weight": head}, _GROK)
        return {_grok_norm(name): values for name, values in found.items()}
    names = {"mixtral": _MIXTRAL, "qwen2moe": _QWEN2_MOE}[architecture]
    return llama_names(arrays, names)


def _grok_norm(name: str) -> str:
    return {"model.norm.weight": "model.norm.scale"}.get(name, name)


def write_checkpoint(
    folder: Path, architecture: str, arrays: Arrays, element: str = "F32"
) -> Path:
    """Write a checkpoint's folder; `arrays` are by GGUF's names."""
    write_config(folder, CONFIGS[architecture])
    tensors = hf_names(architecture, arrays)
    save(folder / "model.safetensors", {k: (element, v) for k, v in tensors.items()})
    return folder


def arrays(manifest: Manifest) -> dict[str, Any]:
    """Every parameter's numbers, by GGUF's names."""
    rng = np.random.default_rng(8)
    return {
        item.name: rng.standard_normal(tuple(map(int, item.type.shape)), np.float32)
        for item in manifest.graph.parameters
        if item.table is None
    }


def checkpoint(root: Path, architecture: str) -> tuple[Path, Arrays]:
    """Write a checkpoint whose numbers are those of `arrays`."""
    values = arrays(read_manifest(sized(root, architecture), root))
    return write_checkpoint(root.parent / "tiny", architecture, values), values


def sized(root: Path, architecture: str) -> Path:
    """Write a manifest by hand that has the config's sizes."""
    path = root / "models/by-hand.yaml"
    (root / "models/by-hand.safetensors").touch()
    path.write_text(BY_HAND[architecture])
    return path


_END = """
dynamic:
  batch: {min: 1, max: 64}
  seq: {min: 1, max: 32}
  n_block: {min: 2, max: 129}
  n_block_seq: {min: 1, max: 2}
weights:
  source: {kind: file, path: by-hand.safetensors}
  naming: gguf
  policy:
    - {match: "*", source: f32, stored: f32, compute: f32}
"""
_SIZES = "n_vocab: 96, n_ctx: 40, n_embd: 32, n_head: 4, n_head_kv: 2, head_dim: 8"
BY_HAND = {
    "mixtral": f"""\
model: by-hand
architecture: mixtral
licence: Apache-2.0
dims: {{{_SIZES}, n_ff: 48, n_layer: 2, n_expert: 4, n_expert_used: 2, block_size: 16}}
hyperparameters:
  rms_norm_eps: 1.0e-6
  rope_freq_base: 1000000
  attention_scale: 0.3535533905932738
{_END}""",
    "qwen2moe": f"""\
model: by-hand
architecture: qwen2moe
licence: Apache-2.0
dims: {{{_SIZES}, n_ff: 16, n_ff_shexp: 40, n_layer: 2, n_expert: 6, n_expert_used: 2,
  block_size: 16}}
hyperparameters:
  rms_norm_eps: 1.0e-6
  rope_freq_base: 1000000
  attention_scale: 0.3535533905932738
{_END}""",
    "dbrx": f"""\
model: by-hand
architecture: dbrx
licence: Apache-2.0
dims: {{{_SIZES}, n_ff: 24, n_layer: 2, n_expert: 4, n_expert_used: 2, block_size: 16}}
hyperparameters:
  layer_norm_eps: 1.0e-5
  rope_freq_base: 500000
  attention_scale: 0.3535533905932738
  attn_clamp_low: -8
  attn_clamp_high: 8
{_END}""",
    "grok": f"""\
model: by-hand
architecture: grok
licence: Apache-2.0
dims: {{{_SIZES}, n_ff: 48, n_layer: 2, n_expert: 4, n_expert_used: 2, block_size: 16}}
hyperparameters:
  rms_norm_eps: 1.0e-6
  rope_freq_base: 10000
  attention_scale: 0.25
  attention_cap: 30
  embedding_scale: 78.38367176906169
  output_scale: 0.5773502691896257
{_END}""",
}
