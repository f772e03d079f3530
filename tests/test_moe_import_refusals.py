"""Test the errors of wrong checkpoints and architectures of mixtures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.errors import IngotError
from ingot.imports.checkpoint import import_checkpoint
from ingot.model.manifest import read_manifest
from ingot.model.yaml_nodes import format_errors
from tests.import_cases import checkout, write_config
from tests.moe_checkpoints import CONFIGS, checkpoint, hf_names, sized
from tests.weights_cases import save


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


def refusal(root: Path, source: Path) -> str:
    """All that the import of a checkpoint says, but its last line."""
    with pytest.raises(IngotError) as caught:
        import_checkpoint(root, str(source))
    return str(caught.value).rpartition("\n")[0]


def test_experts_that_are_missing_are_one_error(root: Path) -> None:
    source, values = checkpoint(root, "mixtral")
    tensors = hf_names("mixtral", values)
    for layer in range(2):
        del tensors[f"model.layers.{layer}.block_sparse_moe.experts.3.w1.weight"]
    save(source / "model.safetensors", {k: ("F32", v) for k, v in tensors.items()})
    assert refusal(root, source) == (
        "tiny: tensor 'model.layers.0.block_sparse_moe.experts.3.w1.weight', and 1 more"
        " like it: missing; expected [n_ff, n_embd] for parameter"
        " 'blk.{layer}.ffn_gate_exps.weight', found none\n"
        "  config.json: num_hidden_layers says 2 layers"
    )


def test_joined_rows_must_be_as_many_as_the_config_says(root: Path) -> None:
    source, _ = checkpoint(root, "dbrx")
    config = json.loads((source / "config.json").read_text())
    config["attn_config"]["kv_n_heads"] = 1
    write_config(source, config)
    assert refusal(root, source).splitlines()[0] == (
        "model.safetensors: tensor 'transformer.blocks.0.norm_attn_norm.attn.Wqkv"
        ".weight', and 1 more like it: wrong shape; expected [48, 32]"
        " (n_head*head_dim+n_head_kv*head_dim+n_head_kv*head_dim, n_embd),"
        " found [64, 32]"
    )


def saved_again(config: dict[str, Any], base: float) -> dict[str, Any]:
    """What transformers 5.23 writes for a config of DBRX: its parts have all keys."""
    common: dict[str, Any] = {"_name_or_path": "", "architectures": None, "dtype": None}
    common |= {"id2label": {"0": "LABEL_0"}, "model_type": "", "problem_type": None}
    parts = {key: {**common, **config[key]} for key in ("attn_config", "ffn_config")}
    parts["ffn_config"] |= {
        "ffn_act_fn": {"name": "silu"},
        "hidden_size": config["d_model"],
        "moe_jitter_eps": None,
        "moe_normalize_expert_weights": 1.0,
    }
    rope = {"rope_theta": base, "rope_type": "default"}
    return {**config, **parts, "num_key_value_heads": 2, "rope_parameters": rope}


def test_dbrx_as_transformers_saves_it_has_one_base_where_both_agree(
    root: Path,
) -> None:
    source, _ = checkpoint(root, "dbrx")
    write_config(source, saved_again(CONFIGS["dbrx"], 500000.0))
    imported = import_checkpoint(root, str(source))
    manifest = read_manifest(root / imported.path, root)
    assert dict(manifest.hyperparameters)["rope_freq_base"] == 500000


def test_dbrx_with_two_bases_is_refused(root: Path) -> None:
    source, _ = checkpoint(root, "dbrx")
    write_config(source, saved_again(CONFIGS["dbrx"], 10000.0))
    assert refusal(root, source) == (
        "config.json: rope_parameters.rope_theta: expected 500000, as config.json:"
        " attn_config.rope_theta has, found 10000.0\n"
        "  transformers 5 reads only rope_parameters, and writes 10000 there even for"
        " weights that were trained with the base of attn_config: write the right one"
        " to both"
    )


@pytest.mark.parametrize(
    ("architecture", "key", "value", "message"),
    [
        ("mixtral", "sliding_window", 4096, "every layer sees all positions"),
        (
            "qwen2moe",
            "norm_topk_prob",
            True,
            "the weights of experts are those of the softmax",
        ),
        ("qwen2moe", "mlp_only_layers", [1], "every layer has its experts"),
        ("dbrx", "tie_word_embeddings", True, "it has a separate head"),
        ("grok", "rope_theta", 20000.0, "its class always uses this base"),
        ("grok", "tie_word_embeddings", False, "it computes logits with the embedding"),
    ],
)
def test_what_a_mixture_here_does_not_compute_is_refused(
    root: Path, architecture: str, key: str, value: Any, message: str
) -> None:
    source, _ = checkpoint(root, architecture)
    write_config(source, {**CONFIGS[architecture], key: value})
    told = refusal(root, source)
    assert told.startswith(f"config.json: {key}: not supported; expected")
    assert message in told


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "hf_shape: [n_expert*n_ff, n_embd]}",
            "hf_shape: [n_expert*n_ff, n_ff]}",
            "hf_shape: not the parameter's dims in another order, or joined; expected"
            " n_expert, n_embd, n_ff, found n_expert, n_ff, n_ff",
        ),
        (
            '"blk.{layer}.attn_v.weight"]}',
            "output.weight]}",
            "hf_fused: 'blk.{layer}.attn_v.weight' is not among them",
        ),
        (
            '"blk.{layer}.attn_v.weight"]}',
            '"blk.{layer}.attn_w.weight"]}',
            "hf_fused[2]: no parameter named 'blk.{layer}.attn_w.weight'",
        ),
        (
            '"blk.{layer}.attn_v.weight"]}',
            '"blk.{layer}.ffn_gate_exps.weight"]}',
            "hf_fused[2]: the rows of 'blk.{layer}.ffn_gate_exps.weight' have other"
            " dims than those of 'blk.{layer}.attn_q.weight'",
        ),
        (
            "hf: transformer.wte.weight",
            'hf: "transformer.{expert}.weight"',
            "hf: {expert} in 'hf', and the parameter's first dim is not n_expert",
        ),
        (
            "ffn.experts.mlp.v1",
            "ffn.experts.{expert}.v1",
            "hf_shape: needs an 'hf' without {expert}",
        ),
    ],
)
def test_forms_that_do_not_fit_a_parameter_are_errors_of_the_architecture(
    root: Path, old: str, new: str, message: str
) -> None:
    path, architecture = sized(root, "dbrx"), root / "models/architectures/dbrx.yaml"
    text = architecture.read_text()
    assert old in text
    # The last: of attn_v where it is about joined rows.
    before, _, after = text.rpartition(old)
    architecture.write_text(before + new + after)
    with pytest.raises(ExceptionGroup) as caught:
        read_manifest(path, root)
    assert message.replace("attn_q", "attn_v") in format_errors(caught.value)
