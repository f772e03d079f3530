"""Make <model>.npz of a decoder: logits and a greedy sequence that transformers gives.

The file judges the model's graph, so of this project only the manifest's numbers and
its random weights go into it: logits come from the class of `transformers` for the
architecture (float32, eager attention, rope of its own). Float32 results differ in the
last bits from one processor to another, so remake a file only where its manifest or
its architecture changes.

    python -m venv /tmp/golden && . /tmp/golden/bin/activate
    pip install --editable '.[golden]'
    python models/golden/make_decoder_golden.py clm-60m

Prompts are random token ids. Of random weights many tokens have nearly the same logit:
prompts are drawn again until the best token is clear, so that a greedy token is right
or wrong whatever the rounding.

Arrays, text as UTF-8 bytes of JSON in uint8:
    metadata        kind "logits", model, versions, the attention's window or null,
                    smallest lead of a best token over the second (share of the range)
    tokens          int32 [sum of lengths], all prompts
    offsets         int32 [n + 1], prompt i has tokens[offsets[i]:offsets[i + 1]]
    ids             int32 [1024], token ids, sorted
    logits          float32 [n, 1024], at `ids`, after the last token of each prompt
    argmax          int32 [n], the token with the largest logit
    range           float32 [n], largest less smallest logit of the whole vocabulary
    greedy          int32 [80], a prompt of 16 tokens, then each the best after the last
    greedy_prompt   int32 [], 16
    steps           int32 [8], step i makes greedy[16 + i]
    step_logits     float32 [8, 1024], at `ids`, of these steps
    step_range      float32 [8]
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from ingot.graph import Parameter
from ingot.readers.manifest import Manifest, read_manifest
from ingot.readers.sources import Synthetic
from ingot.weights.convert import CHUNK_BYTES
from ingot.weights.synthetic import synthetic_chunks

ROOT = Path(__file__).parents[2]
CLASSES = {
    "gemma3": (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM),
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
}
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"

LENGTHS = (1, 2, 7, 16, 33, 64, 200)
LONGEST = 300
# Longer than the window: the first tokens are out of sight.
LONGEST_WINDOWED = 640
IDS = 1024
GREEDY_PROMPT, GREEDY_STEPS = 16, 64
STEPS = (0, 1, 2, 4, 8, 16, 32, 63)
CANDIDATES = 8

# 2.5 times what a logit may be wrong by, both as shares of the range: two logits that
# are as wrong as they may be still have their order.
LEAD = 5e-4


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
    """Return the model of transformers with the manifest's random weights.

    Raises: ValueError where the weights are not just those that the class has.
    """
    source = manifest.weights.source
    if not isinstance(source, Synthetic):
        raise ValueError(f"{manifest.path}: its weights are not random")
    read = [item for item in manifest.graph.parameters if item.table is None]
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


def last_logits(model: Any, tokens: np.ndarray) -> np.ndarray:
    """Return the logits after the last token.

    Shapes: tokens [seq] -> [n_vocab].
    """
    ids = torch.from_numpy(tokens.astype(np.int64))[None]
    with torch.no_grad():
        made = model(input_ids=ids, use_cache=False, logits_to_keep=1).logits
    return made[0, -1].numpy()


def lead(logits: np.ndarray) -> float:
    """Return by which share of the range the best token leads."""
    second, best = np.partition(logits, -2)[-2:]
    return float((best - second) / np.ptp(logits))


def prompt(model: Any, rng: np.random.Generator, length: int) -> tuple[Any, Any]:
    """Return a prompt with a clear best token, and the logits after it."""
    while True:
        tokens = rng.integers(0, model.config.vocab_size, length, np.int32)
        logits = last_logits(model, tokens)
        if lead(logits) >= LEAD:
            return tokens, logits


def greedy(model: Any, rng: np.random.Generator) -> np.ndarray:
    """Return a prompt and what follows by clear steps, made with transformers' cache.

    Shapes: -> [80].
    """
    n_vocab, tokens = model.config.vocab_size, np.zeros((0, 0), np.int64)
    while True:
        if not len(tokens):
            # Side by side: reading the weights takes longer than a token's arithmetic.
            tokens = rng.integers(0, n_vocab, (CANDIDATES, GREEDY_PROMPT))
            given, cache = tokens, None
        with torch.no_grad():
            made = model(
                input_ids=torch.from_numpy(given),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
        logits, cache = made.logits[:, -1].numpy(), made.past_key_values
        clear = [row for row, item in enumerate(logits) if lead(item) >= LEAD]
        cache.batch_select_indices(torch.tensor(clear, dtype=torch.int64))
        given = logits[clear].argmax(1)[:, None]
        tokens = np.concatenate([tokens[clear], given], axis=1)
        if len(tokens) and tokens.shape[1] == GREEDY_PROMPT + GREEDY_STEPS:
            # Random weights come to repeat themselves; the last to do so says most.
            best = max(tokens, key=lambda row: len(set(row.tolist())))
            return best.astype(np.int32)


def write_npz(path: Path, arrays: dict[str, Any]) -> None:
    """Write arrays so that equal arrays give equal bytes: sorted, dated 1980."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            content = io.BytesIO()
            array = np.asarray(arrays[name])
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getvalue())


def text(value: Any) -> np.ndarray:
    """Return a JSON value as UTF-8 bytes."""
    return np.frombuffer(json.dumps(value, sort_keys=True).encode(), np.uint8)


def judge(model: Any, rng: np.random.Generator, lengths: tuple[int, ...]) -> Any:
    """Return the arrays of the file, and the smallest leads among its best tokens."""
    ids = np.sort(rng.choice(model.config.vocab_size, IDS, replace=False))
    prompts, found = zip(*(prompt(model, rng, n) for n in lengths), strict=True)
    sequence = greedy(model, rng)
    # Without a cache, all steps at once: what the cache made must be the same.
    with torch.no_grad():
        given = torch.from_numpy(sequence[None, :-1].astype(np.int64))
        every = model(input_ids=given, use_cache=False).logits[0].numpy()
    every = every[GREEDY_PROMPT - 1 :]
    assert np.array_equal(every.argmax(1), sequence[GREEDY_PROMPT:])
    steps = every[list(STEPS)]
    arrays = {
        "tokens": np.concatenate(prompts),
        "offsets": np.cumsum([0, *lengths], dtype=np.int32),
        "ids": ids.astype(np.int32),
        "logits": np.stack([item[ids] for item in found]),
        "argmax": np.array([item.argmax() for item in found], np.int32),
        "range": np.array([np.ptp(item) for item in found]),
        "greedy": sequence,
        "greedy_prompt": np.int32(GREEDY_PROMPT),
        "steps": np.array(STEPS, np.int32),
        "step_logits": steps[:, ids],
        "step_range": np.ptp(steps, axis=1),
    }
    return arrays, {"prompts": min(map(lead, found)), "greedy": min(map(lead, every))}


def float32_error(model: Any, arrays: dict[str, Any]) -> float:
    """Return how far short prompts' logits are from float64's, as a share of range."""
    model.double()
    errors = []
    for index, stop in enumerate(arrays["offsets"][1:]):
        tokens = arrays["tokens"][arrays["offsets"][index] : stop]
        if len(tokens) <= GREEDY_PROMPT:
            error = last_logits(model, tokens)[arrays["ids"]] - arrays["logits"][index]
            errors.append(np.abs(error).max() / arrays["range"][index])
    return float(max(errors))


def main(name: str) -> None:
    """Write the golden file of a model, and print what is in it."""
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    manifest = read_manifest(ROOT / "models" / f"{name}.yaml", ROOT)
    window = dict(manifest.dims).get("n_swa")
    model = make_model(manifest)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    longest = LONGEST_WINDOWED if window else LONGEST
    arrays, leads = judge(model, rng, (*LENGTHS, longest))
    packages = ("torch", "transformers")
    metadata = {
        "kind": "logits",
        "model": name,
        "versions": {item: importlib.metadata.version(item) for item in packages},
        "window": window,
        "smallest_lead": leads,
    }
    path = Path(__file__).with_name(f"{name}.npz")
    write_npz(path, {**arrays, "metadata": text(metadata)})
    different = len(set(arrays["greedy"].tolist()))
    print(f"{name}: {different} different greedy tokens, smallest leads {leads}")
    print(f"float32 against float64: {float32_error(model, arrays):.1e}")


if __name__ == "__main__":
    main(sys.argv[1])
