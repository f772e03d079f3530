"""Write checkpoints like those of real models: small ones, and ones without numbers.

Names, shapes and keys are written by hand, not taken from models/architectures.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGUFWriter

from ingot.imports.checkpoint import Imported, import_checkpoint
from ingot.model.manifest import Manifest, read_manifest
from tests.gguf_cases import permute, write_gguf
from tests.project import ROOT
from tests.weights_cases import save

F32 = np.float32
Config = dict[str, Any]

DATA = Path(__file__).parent / "data/configs"
PUBLISHED: dict[str, Config] = {
    path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))
}
"""By model of this project: what its makers publish as config.json."""

LOCAL = ["sliding_attention"]
_SMALL = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 64,
}
TINY: dict[str, Config] = {
    "gemma3": {
        **PUBLISHED["gemma3-270m"],
        **_SMALL,
        "head_dim": 16,
        "sliding_window": 8,
        "num_hidden_layers": 7,
        "layer_types": [*LOCAL * 5, "full_attention", *LOCAL],
    },
    "llama": {**PUBLISHED["smollm2-135m"], **_SMALL},
    "qwen2": {**PUBLISHED["qwen2-0.5b"], **_SMALL},
    "qwen3": {**PUBLISHED["qwen3-0.6b"], **_SMALL, "head_dim": 16},
}
"""By architecture: a published config, made small."""

CARD = "---\nlanguage: en\nlicense: apache-2.0  # of the weights\n---\n# A model\n"


def checkout(folder: Path) -> Path:
    """Make a checkout without models."""
    root = folder / "checkout"
    for part in ("components", "oracles", "models/architectures", "models/licences"):
        shutil.copytree(ROOT / part, root / part)
    return root


def bring(root: Path, source: Path, **words: Any) -> tuple[Imported, Manifest]:
    """Import a checkpoint; return the report, and the manifest read back."""
    imported = import_checkpoint(root, str(source), **words)
    return imported, read_manifest(root / imported.path, root)


def head_dim(config: Config) -> int:
    """The values of a head."""
    quotient = config["hidden_size"] // config["num_attention_heads"]
    return int(config.get("head_dim") or quotient)


def shapes(config: Config) -> dict[str, tuple[int, ...]]:
    """The tensors that `transformers` writes for a tied model of this config."""
    kind, width = config["model_type"], config["hidden_size"]
    inner, size = config["intermediate_size"], head_dim(config)
    queries, keys = (
        size * config[f"num_{heads}_heads"] for heads in ("attention", "key_value")
    )
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (width,),
        "self_attn.q_proj.weight": (queries, width),
        "self_attn.k_proj.weight": (keys, width),
        "self_attn.v_proj.weight": (keys, width),
        "self_attn.o_proj.weight": (width, queries),
        "post_attention_layernorm.weight": (width,),
        "mlp.gate_proj.weight": (inner, width),
        "mlp.up_proj.weight": (inner, width),
        "mlp.down_proj.weight": (width, inner),
    }
    if kind == "qwen2":
        for name, rows in (("q", queries), ("k", keys), ("v", keys)):
            layer[f"self_attn.{name}_proj.bias"] = (rows,)
    if kind in ("qwen3", "gemma3_text"):
        layer["self_attn.q_norm.weight"] = layer["self_attn.k_norm.weight"] = (size,)
    if kind == "gemma3_text":
        layer["pre_feedforward_layernorm.weight"] = (width,)
        layer["post_feedforward_layernorm.weight"] = (width,)
    return {
        "model.embed_tokens.weight": (config["vocab_size"], width),
        **{
            f"model.layers.{number}.{name}": shape
            for number in range(config["num_hidden_layers"])
            for name, shape in layer.items()
        },
        "model.norm.weight": (width,),
    }


def numbers(config: Config) -> dict[str, Any]:
    """A float32 array for each tensor, the same every time."""
    rng = np.random.default_rng(3)
    return {
        name: rng.standard_normal(shape).astype(F32)
        for name, shape in shapes(config).items()
    }


def write_config(folder: Path, config: Any, card: str = CARD) -> None:
    """Write config.json, and the model card."""
    folder.mkdir(parents=True, exist_ok=True)
    text = config if isinstance(config, str) else json.dumps(config)
    (folder / "config.json").write_text(text)
    (folder / "README.md").write_text(card)


def write_hf(folder: Path, config: Config, **changes: Any) -> Path:
    """Write a checkpoint; `changes` are arrays by tensor, None for one left out."""
    write_config(folder, config)
    tensors = {**numbers(config), **changes}
    save(
        folder / "model.safetensors",
        {name: ("F32", v) for name, v in tensors.items() if v is not None},
    )
    return folder


def write_hollow(folder: Path, config: Config) -> Path:
    """Write a checkpoint of full size whose numbers take no room: they are a hole."""
    write_config(folder, config)
    header, end = {}, 0
    tensors = shapes(config)
    if config["model_type"] == "qwen3":
        # Qwen/Qwen3-0.6B has a copy of its embedding, though it says that it is tied.
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    for name, shape in tensors.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
    return folder


def write_shards(folder: Path, config: Config) -> Path:
    """Write a checkpoint as two files and their index."""
    write_config(folder, config)
    tensors = list(numbers(config).items())
    index: dict[str, str] = {}
    for number, part in enumerate((tensors[:5], tensors[5:]), 1):
        file = f"model-{number:05}-of-00002.safetensors"
        save(folder / file, {name: ("F32", values) for name, values in part})
        index |= {name: file for name, _ in part}
    content = json.dumps({"metadata": {}, "weight_map": index})
    (folder / "model.safetensors.index.json").write_text(content)
    return folder


# A tensor of `transformers` and what llama.cpp calls it.
# Source: ggml-org/llama.cpp, gguf-py/gguf/tensor_mapping.py.
_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GEMMA_NAMES = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name: str, gemma: bool) -> str:
    """The tensor's name in a GGUF file."""
    names = {**_GGUF_NAMES, **(_GEMMA_NAMES if gemma else {})}
    stem, _, kind = name.rpartition(".")
    if stem.startswith("model.layers."):
        number, _, stem = stem.removeprefix("model.layers.").partition(".")
        return f"blk.{number}.{names[stem]}.{kind}"
    return f"{names[stem]}.{kind}"


def write_metadata(writer: GGUFWriter, config: Config, licence: str) -> None:
    """Add what convert_hf_to_gguf.py adds for a model of this config."""
    if licence:
        writer.add_license(licence)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    if config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
    if config["model_type"] == "llama":
        writer.add_vocab_size(config["vocab_size"])
        writer.add_rope_dimension_count(head_dim(config))
    if config["model_type"] == "gemma3_text":
        writer.add_sliding_window(config["sliding_window"])
    writer.add_token_list(["a"] * config["vocab_size"])


def write_as_gguf(
    path: Path,
    config: Config,
    licence: str = "apache-2.0",
    more: dict[str, int] | None = None,
    rope_freqs: Any = None,
    **changes: Any,
) -> Path:
    """Write the numbers of `write_hf` as a GGUF file, with more metadata if given.

    `more` has whole keys, `changes` those of the architecture; `rope_freqs` are the
    divisors of rope angles.
    """
    model_type = str(config["model_type"])
    architecture = {"gemma3_text": "gemma3"}.get(model_type, model_type)
    tensors = {}
    for name, values in numbers(config).items():
        if architecture == "gemma3" and "norm" in name:
            values = values + F32(1)
        if architecture == "llama" and "q_proj" in name:
            values = permute(values, config["num_attention_heads"])
        if architecture == "llama" and "k_proj" in name:
            values = permute(values, config["num_key_value_heads"])
        tensors[gguf_name(name, architecture == "gemma3")] = ("F32", values)

    if rope_freqs is not None:
        tensors["rope_freqs.weight"] = ("F32", rope_freqs)

    def add(writer: GGUFWriter) -> None:
        write_metadata(writer, config, licence)
        for key, value in (more or {}).items():
            writer.add_uint32(key, value)
        for key, value in changes.items():
            full = f"{architecture}.{key.replace('__', '.')}"
            if isinstance(value, str):
                writer.add_string(full, value)
            elif isinstance(value, float):
                writer.add_float32(full, value)
            else:
                writer.add_uint32(full, value)

    return write_gguf(path, tensors, add, architecture)
