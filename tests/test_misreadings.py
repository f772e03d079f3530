from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ingot.checks.compare import Row
from ingot.checks.golden_files import read_logits
from ingot.checks.oracle_judge import judge_rows
from ingot.errors import IngotError
from ingot.imports.checkpoint import import_checkpoint
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles
from tests.import_cases import LOCAL, checkout
from tests.judged_checkpoints import DATA, FAMILIES, baked, write_judged


@dataclass(frozen=True)
class Misreading:
    """What an import reads in place of what a checkpoint states, and how it is caught.

    `config` are keys of config.json, None for one that it overlooks; `manifest` and
    `architecture` are replacements in the text of the manifest or the architecture.
    """

    family: str
    config: Mapping[str, Any] = field(default_factory=dict)
    manifest: tuple[str, str] | None = None
    architecture: tuple[str, str] | None = None
    refused: str = ""  # what the error says; "" if golden outputs catch it


HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1}
SHAPE = "wrong shape"
NOT_HERE = "not supported"
UNKNOWN = "unknown to architecture"
SWAPPED = {"rope_theta": 10000.0, "rope_local_base_freq": 1000000.0}
MISREADINGS = {
    "epsilon ten times": Misreading("llama", {"rms_norm_eps": 1e-4}),
    "epsilon by default": Misreading("llama", {"rms_norm_eps": None}),
    "rope base by default": Misreading("llama", {"rope_theta": None}),
    "rope base of Llama 3": Misreading("llama", {"rope_theta": 500000.0}),
    "half the heads": Misreading("llama", HEADS),
    "twice the heads": Misreading(
        "llama", {"num_attention_heads": 8, "num_key_value_heads": 4}
    ),
    "scale of other heads": Misreading(
        "llama",
        manifest=("attention_scale: 0.3535533905932738", "attention_scale: 0.25"),
    ),
    "no scale": Misreading(
        "llama", manifest=("attention_scale: 0.3535533905932738", "attention_scale: 1")
    ),
    "gate for up": Misreading("llama", architecture=("gate_proj", "up_proj")),
    "norms exchanged": Misreading(
        "llama", architecture=("input_layernorm", "post_attention_layernorm")
    ),
    "heads of keys": Misreading("llama", {"num_key_value_heads": 4}, refused=SHAPE),
    "head dim": Misreading("llama", {"head_dim": 16}, refused=SHAPE),
    "width": Misreading("llama", {"hidden_size": 16}, refused=SHAPE),
    "width of the MLP": Misreading("llama", {"intermediate_size": 40}, refused=SHAPE),
    "vocabulary": Misreading("llama", {"vocab_size": 299}, refused=SHAPE),
    "a layer less": Misreading("llama", {"num_hidden_layers": 1}, refused=NOT_HERE),
    "a layer more": Misreading("llama", {"num_hidden_layers": 3}, refused="missing"),
    "activation": Misreading("llama", {"hidden_act": "gelu"}, refused=NOT_HERE),
    "biases": Misreading("llama", {"attention_bias": True}, refused="missing"),
    "biases of the MLP": Misreading("llama", {"mlp_bias": True}, refused=NOT_HERE),
    "scaled positions": Misreading(
        "llama", {"rope_scaling": {"type": "linear", "factor": 2}}
    ),
    "part of a head": Misreading(
        "llama", {"partial_rotary_factor": 0.5}, refused=NOT_HERE
    ),
    "pairs side by side": Misreading(
        "llama", {"rope_interleaved": True}, refused=NOT_HERE
    ),
    "window": Misreading("llama", {"sliding_window": 8}, refused=UNKNOWN),
    "layers without rope": Misreading(
        "llama", {"no_rope_layers": [1, 0]}, refused=UNKNOWN
    ),
    "multiplier": Misreading("llama", {"residual_multiplier": 0.22}, refused=UNKNOWN),
    "the class of another": Misreading(
        "llama",
        {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
        refused="missing",
    ),
    "biases overlooked": Misreading(
        "qwen2",
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama"},
        refused=UNKNOWN,
    ),
    "epsilon of Qwen2": Misreading("qwen2", {"rms_norm_eps": None}),
    "rope base of Qwen2": Misreading("qwen2", {"rope_theta": None}),
    "heads of Qwen2": Misreading("qwen2", HEADS),
    "head tied": Misreading(
        "qwen2",
        manifest=("naming: hf", "naming: hf\n  tied: [output.weight]"),
        refused="lm_head.weight",
    ),
    "head dim by default": Misreading("qwen3", {"head_dim": None}, refused=SHAPE),
    "rope base of Qwen3": Misreading("qwen3", {"rope_theta": None}),
    "norms of queries and keys": Misreading(
        "qwen3", architecture=("self_attn.q_norm", "self_attn.k_norm")
    ),
    "scale of Gemma": Misreading("gemma3", {"query_pre_attn_scalar": 16}),
    "local rope base": Misreading("gemma3", {"rope_local_base_freq": 100.0}),
    "rope bases exchanged": Misreading("gemma3", SWAPPED),
    "window less one": Misreading("gemma3", {"sliding_window": 7}),
    "window plus one": Misreading("gemma3", {"sliding_window": 9}),
    "scale of the embedding": Misreading(
        "gemma3",
        manifest=("embedding_scale: 5.656854249492381", "embedding_scale: 1"),
    ),
    "norms around the MLP": Misreading(
        "gemma3",
        architecture=("pre_feedforward_layernorm", "post_feedforward_layernorm"),
    ),
    "1 not added to norms": Misreading(
        "gemma3", architecture=("offset: 1", "offset: 0")
    ),
    "pattern of layers": Misreading(
        "gemma3",
        {"layer_types": ["full_attention", *LOCAL * 6]},
    ),
    "soft cap": Misreading(
        "gemma3", {"final_logit_softcapping": 30.0}, refused=NOT_HERE
    ),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


def judged(root: Path, source: Path, misreading: Misreading) -> list[Row]:
    """The rows of the oracle that a misread checkpoint makes.

    Raises: IngotError if the import or the bake refuses it.
    """
    config = source / "config.json"
    stated = {**json.loads(config.read_text()), **misreading.config}
    stated = {key: value for key, value in stated.items() if value is not None}
    config.write_text(json.dumps(stated))
    path = root / import_checkpoint(root, str(source)).path
    architecture = root / f"models/architectures/{misreading.family}.yaml"
    for file, change in (
        (path, misreading.manifest),
        (architecture, misreading.architecture),
    ):
        text = file.read_text()
        if change:
            assert change[0] in text
            file.write_text(exchanged(text, *change))
    manifest = read_manifest(path, root)
    parameters = baked(root, manifest, source)
    graph = manifest.graph
    golden = read_logits(DATA / f"{misreading.family}.npz")
    return judge_rows(graph, load_oracles(graph), parameters, golden)


def exchanged(text: str, old: str, new: str) -> str:
    """The text with one word for the other, and the other way round."""
    return text.replace(old, "\0").replace(new, old).replace("\0", new)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_read_right_agrees_with_transformers(family: str, root: Path) -> None:
    source = write_judged(root.parent / "tiny", family)
    rows = judged(root, source, Misreading(family))
    assert [row for row in rows if not row.passed] == []
    assert len(rows) >= 5


@pytest.mark.parametrize("name", MISREADINGS)
def test_a_misread_checkpoint_is_caught(name: str, root: Path) -> None:
    misreading = MISREADINGS[name]
    source = write_judged(root.parent / "tiny", misreading.family)
    if misreading.refused:
        with pytest.raises(IngotError, match=misreading.refused):
            judged(root, source, misreading)
        return
    assert not all(row.passed for row in judged(root, source, misreading))
