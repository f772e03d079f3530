"""Make <model>.npz of a mixture of experts: what transformers says of its weights.

As `make_decoder_golden.py` does, whose arrays and whose way of running this are the
same; logits are at 256 ids. Weights have GGUF's names here: the tables below say what
each tensor of transformers is made of, which joins and turns some of them.

    python models/golden/make_moe_golden.py mixtral-tiny
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from make_decoder_golden import weight, write

from ingot.model.manifest import Manifest, read_manifest

ROOT = Path(__file__).parents[2]
N_IDS = 256

Tensors = Mapping[str, torch.Tensor]
Made = Callable[[Tensors], torch.Tensor]


def one(name: str) -> Made:
    """Return what takes a parameter as it is."""
    return lambda tensors: tensors[name]


def joined(dim: int, *names: str) -> Made:
    """Return what puts parameters one behind the other."""
    return lambda tensors: torch.cat([tensors[name] for name in names], dim)


def stacked(name: str, *, turned: bool) -> Made:
    """Return what makes one matrix of the experts' matrices."""

    def made(tensors: Tensors) -> torch.Tensor:
        tensor = tensors[name]
        return (tensor.transpose(1, 2) if turned else tensor).flatten(0, 1)

    return made


WHOLE = {
    "model.embed_tokens.weight": one("token_embd.weight"),
    "model.norm.weight": one("output_norm.weight"),
    "lm_head.weight": one("output.weight"),
}
LAYER = {
    "input_layernorm.weight": one("attn_norm.weight"),
    **{f"self_attn.{p}_proj.weight": one(f"attn_{p}.weight") for p in "qkv"},
    "self_attn.o_proj.weight": one("attn_output.weight"),
    "post_attention_layernorm.weight": one("ffn_norm.weight"),
    "mlp.gate.weight": one("ffn_gate_inp.weight"),
    "mlp.experts.gate_up_proj": joined(1, "ffn_gate_exps.weight", "ffn_up_exps.weight"),
    "mlp.experts.down_proj": one("ffn_down_exps.weight"),
}
SHARED = {
    **{f"self_attn.{p}_proj.bias": one(f"attn_{p}.bias") for p in "qkv"},
    **{
        f"mlp.shared_expert.{p}_proj.weight": one(f"ffn_{p}_shexp.weight")
        for p in ("gate", "up", "down")
    },
    "mlp.shared_expert_gate.weight": one("ffn_gate_inp_shexp.weight"),
}
DBRX_WHOLE = {
    "transformer.wte.weight": one("token_embd.weight"),
    "transformer.norm_f.weight": one("output_norm.weight"),
    "lm_head.weight": one("output.weight"),
}
DBRX_LAYER = {
    "norm_attn_norm.norm_1.weight": one("attn_norm.weight"),
    "norm_attn_norm.attn.Wqkv.weight": joined(
        0, "attn_q.weight", "attn_k.weight", "attn_v.weight"
    ),
    "norm_attn_norm.attn.out_proj.weight": one("attn_output.weight"),
    "norm_attn_norm.norm_2.weight": one("attn_output_norm.weight"),
    "ffn.router.layer.weight": one("ffn_gate_inp.weight"),
    "ffn.experts.mlp.w1": stacked("ffn_gate_exps.weight", turned=False),
    "ffn.experts.mlp.v1": stacked("ffn_up_exps.weight", turned=False),
    "ffn.experts.mlp.w2": stacked("ffn_down_exps.weight", turned=True),
}
# By architecture: the tensors of the whole, those of a layer, and where that is.
NAMES = {
    "mixtral": (WHOLE, LAYER, "model.layers"),
    "qwen2moe": (WHOLE, LAYER | SHARED, "model.layers"),
    "dbrx": (DBRX_WHOLE, DBRX_LAYER, "transformer.blocks"),
}


def state(manifest: Manifest) -> dict[str, torch.Tensor]:
    """Return the manifest's random weights as transformers names and joins them.

    Raises: ValueError where they are not random, or rounded.
    """
    source = manifest.weights.source
    if source.seed is None:
        raise ValueError(f"{manifest.path}: its weights are not random")
    read = [item for item in manifest.graph.parameters if item.table is None]
    if any(manifest.weights.stored(item.name) != "f32" for item in read):
        raise ValueError(f"{manifest.path}: its weights are rounded")
    tensors = {item.name: weight(item, source.seed) for item in read}
    whole, layer, place = NAMES[manifest.architecture]
    found = {name: made(tensors) for name, made in whole.items()}
    for number in range(dict(manifest.dims)["n_layer"]):
        prefix = f"blk.{number}."
        own = {
            name.removeprefix(prefix): tensor
            for name, tensor in tensors.items()
            if name.startswith(prefix)
        }
        found |= {f"{place}.{number}.{name}": made(own) for name, made in layer.items()}
    return found


def make_model(manifest: Manifest) -> Any:
    """Return the model of transformers with the manifest's random weights.

    Raises: ValueError where the weights are not just those that the class has.
    """
    make = {"mixtral": _mixtral, "qwen2moe": _qwen2moe, "dbrx": _dbrx}
    dims, numbers = dict(manifest.dims), dict(manifest.hyperparameters)
    if not np.isclose(numbers["attention_scale"], dims["head_dim"] ** -0.5, 1e-15):
        raise ValueError("attention_scale: transformers takes head_dim ** -0.5")
    model = make[manifest.architecture](dims, numbers).eval()
    weights = state(manifest)
    if {name: value.shape for name, value in weights.items()} != {
        name: value.shape for name, value in model.named_parameters()
    }:
        raise ValueError(f"{manifest.path}: other parameters than transformers has")
    model.load_state_dict(weights)
    assert (model.config._attn_implementation, model.dtype) == ("eager", torch.float32)
    return model


def _common(dims: Mapping[str, int], numbers: Mapping[str, Any]) -> dict[str, Any]:
    base = float(numbers["rope_freq_base"])
    return {
        "vocab_size": dims["n_vocab"],
        "max_position_embeddings": dims["n_ctx"],
        "hidden_size": dims["n_embd"],
        "num_attention_heads": dims["n_head"],
        "num_key_value_heads": dims["n_head_kv"],
        "num_hidden_layers": dims["n_layer"],
        "num_experts_per_tok": dims["n_expert_used"],
        "rms_norm_eps": float(numbers["rms_norm_eps"]),
        "rope_parameters": {"rope_type": "default", "rope_theta": base},
        "tie_word_embeddings": False,
        "attn_implementation": "eager",
        # The faster ones have no float64.
        "experts_implementation": "eager",
    }


def _mixtral(dims: Mapping[str, int], numbers: Mapping[str, Any]) -> Any:
    configuration = transformers.MixtralConfig(
        **_common(dims, numbers),
        head_dim=dims["head_dim"],
        intermediate_size=dims["n_ff"],
        num_local_experts=dims["n_expert"],
        sliding_window=None,
    )
    return transformers.MixtralForCausalLM(configuration)


def _qwen2moe(dims: Mapping[str, int], numbers: Mapping[str, Any]) -> Any:
    configuration = transformers.Qwen2MoeConfig(
        **_common(dims, numbers),
        moe_intermediate_size=dims["n_ff"],
        shared_expert_intermediate_size=dims["n_ff_shexp"],
        num_experts=dims["n_expert"],
        norm_topk_prob=False,
        use_sliding_window=False,
    )
    return transformers.Qwen2MoeForCausalLM(configuration)


def _dbrx(dims: Mapping[str, int], numbers: Mapping[str, Any]) -> Any:
    if numbers["attn_clamp_low"] != -numbers["attn_clamp_high"]:
        raise ValueError("attn_clamp_low: transformers clips to a range around 0")
    configuration = transformers.DbrxConfig(
        vocab_size=dims["n_vocab"],
        max_seq_len=dims["n_ctx"],
        d_model=dims["n_embd"],
        n_heads=dims["n_head"],
        n_layers=dims["n_layer"],
        tie_word_embeddings=False,
        attn_implementation="eager",
        rope_parameters={
            "rope_type": "default",
            "rope_theta": float(numbers["rope_freq_base"]),
        },
        attn_config={
            "clip_qkv": float(numbers["attn_clamp_high"]),
            "kv_n_heads": dims["n_head_kv"],
            "rope_theta": float(numbers["rope_freq_base"]),
        },
        ffn_config={
            "ffn_act_fn": {"name": "silu"},
            "ffn_hidden_size": dims["n_ff"],
            "moe_num_experts": dims["n_expert"],
            "moe_top_k": dims["n_expert_used"],
            "moe_normalize_expert_weights": 1.0,
        },
    )
    return transformers.DbrxForCausalLM(configuration)


def main(name: str) -> None:
    """Write the golden file of a model, and print what is in it."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    manifest = read_manifest(ROOT / "models" / f"{name}.yaml", ROOT)
    write(name, make_model(manifest), dict(manifest.dims)["n_ctx"], N_IDS)


if __name__ == "__main__":
    main(sys.argv[1])
