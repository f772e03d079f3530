"""Make <model>.npz of a decoder: logits and a greedy sequence that transformers gives.

The check compares the graph with this file, so of this project only the manifest's
numbers and its random weights go into it: logits come from the class of `transformers`
for the architecture (float32, eager attention, rope of its own). A checkpoint needs no
such file, because a build computes its golden outputs if the extra is installed.
Float32 results differ in the last bits from one processor to another, so remake a file
only where its manifest or its architecture changes. The manifest names it then:
`check: {golden: golden/<model>.npz}`.

    python -m venv /tmp/golden && . /tmp/golden/bin/activate
    pip install --editable '.[golden]'
    python models/golden/make_decoder_golden.py clm-60m

`ingot/programs/golden/judged_logits.py` documents the arrays of the file.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from ingot.model.graph import Parameter
from ingot.model.manifest import Manifest, read_manifest
from ingot.programs.golden.judged_logits import describe, float32_error, logits_file
from ingot.weights.convert import CHUNK_BYTES
from ingot.weights.synthetic import synthetic_chunks

ROOT = Path(__file__).parents[2]
CLASSES = {
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}
N_IDS = 1024
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def weight(parameter: Parameter, seed: int) -> torch.Tensor:
    """Return a parameter's random values, as a checkpoint stores them.

    Raises: ValueError where the offset that a checkpoint lacks cannot be taken off.
    """
    shape = tuple(int(size) for size in parameter.type.shape)
    chunks = synthetic_chunks(parameter.name, shape, seed, CHUNK_BYTES)
    values = np.concatenate(list(chunks)).reshape(shape)
    # Exact: no rounding when 1 is taken off a number between 0.5 and 2.
    stored = (values.astype(np.float64) - parameter.offset).astype(np.float32)
    if not np.array_equal(stored + np.float32(parameter.offset), values):
        raise ValueError(f"{parameter.name}: rounded by its offset {parameter.offset}")
    return torch.from_numpy(stored)


def configuration(manifest: Manifest, tied: bool) -> Any:
    """Return the configuration that transformers takes for a manifest's numbers.

    Raises: ValueError for a number that transformers computes in another way.
    """
    dims, numbers = dict(manifest.dims), dict(manifest.hyperparameters)
    base = float(numbers["rope_freq_base"])
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": base}
    special: dict[str, Any] = {}
    scale = dims["head_dim"] ** -0.5
    if manifest.architecture == "gemma3":
        local = {**rope, "rope_theta": float(numbers["rope_freq_base_swa"])}
        rope = {"full_attention": rope, "sliding_attention": local}
        special = {
            "sliding_window": dims["n_swa"],
            "layer_types": [
                "sliding_attention" if (layer + 1) % 6 else "full_attention"
                for layer in range(dims["n_layer"])
            ],
            "query_pre_attn_scalar": 256,
        }
        scale = 256**-0.5
        if not np.isclose(numbers["embedding_scale"], dims["n_embd"] ** 0.5, 1e-15):
            raise ValueError("embedding_scale: not the root of n_embd")
    if not np.isclose(numbers["attention_scale"], scale, 1e-15):
        raise ValueError(f"attention_scale: transformers takes {scale}")
    return CLASSES[manifest.architecture][0](
        vocab_size=dims["n_vocab"],
        max_position_embeddings=dims["n_ctx"],
        hidden_size=dims["n_embd"],
        num_attention_heads=dims["n_head"],
        num_key_value_heads=dims["n_head_kv"],
        head_dim=dims["head_dim"],
        intermediate_size=dims["n_ff"],
        num_hidden_layers=dims["n_layer"],
        rms_norm_eps=float(numbers["rms_norm_eps"]),
        rope_parameters=rope,
        tie_word_embeddings=tied,
        attn_implementation="eager",
        **special,
    )


def make_model(manifest: Manifest) -> Any:
    """Return the model of transformers with the manifest's weights, in float32.

    Raises: ValueError where the weights are not just those that the class has.
    """
    source = manifest.weights.source
    read = [item for item in manifest.graph.parameters if item.table is None]
    if source.seed is None:
        raise ValueError(f"{manifest.path}: its weights are not random")
    if any(manifest.weights.stored(item.name) != "f32" for item in read):
        raise ValueError(f"{manifest.path}: its weights are rounded")
    state = {item.source_name: weight(item, source.seed) for item in read}
    tied = HEAD not in state
    config = configuration(manifest, tied)
    model = CLASSES[manifest.architecture][1](config).eval()
    if {name: value.shape for name, value in state.items()} != {
        name: value.shape for name, value in model.named_parameters()
    }:
        raise ValueError(f"{manifest.path}: other parameters than transformers has")
    model.load_state_dict({**state, **({HEAD: state[EMBEDDING]} if tied else {})})
    if tied != (model.lm_head.weight is model.model.embed_tokens.weight):
        raise ValueError(f"{manifest.path}: the head is tied on one side only")
    assert (model.config._attn_implementation, model.dtype) == ("eager", torch.float32)
    return model


def write(name: str, model: Any, n_ctx: int, n_ids: int) -> None:
    """Write the golden file of a model, and print what is in it."""
    packages = ("torch", "transformers")
    versions = {item: importlib.metadata.version(item) for item in packages}
    content, arrays = logits_file(model, name, n_ctx, n_ids, versions)
    Path(__file__).with_name(f"{name}.npz").write_bytes(content)
    print(f"{name}: {describe(arrays)}")
    print(f"float32 against float64: {float32_error(model, arrays):.1e}")


def main(name: str) -> None:
    """Write the golden file of a model, and print what is in it."""
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    manifest = read_manifest(ROOT / "models" / f"{name}.yaml", ROOT)
    write(name, make_model(manifest), dict(manifest.dims)["n_ctx"], N_IDS)


if __name__ == "__main__":
    main(sys.argv[1])
