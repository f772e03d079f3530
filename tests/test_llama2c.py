"""Test the conversion of a llama2.c checkpoint against llama2.c's own arithmetic."""

from __future__ import annotations

import json
import random
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from ingot.engine.actions import Output
from ingot.errors import IngotError
from ingot.model.manifest import Manifest, read_manifest
from ingot.stages.fetch import plan_files
from ingot.weights.llama2c import to_config, to_safetensors, to_tokenizer
from tests import scratch
from tests.manifest_cases import GOOD, ROOT, message, place

Array = np.ndarray[Any, Any]

# n_embd, n_ff, n_layer, n_head, n_head_kv, n_vocab, n_ctx
SIZES = (16, 24, 2, 4, 2, 300, 8)
HEAD_DIM = 4

PIECES = [" t", "er", " a", "he", "the", " the", "ther", "\n", "t", "h", "e", "r", "a"]
PIECES += [" ", "  ", "é", "日"]


def vocabulary(pieces: list[str], n_vocab: int = 300) -> bytes:
    """Return a tokenizer.bin: special tokens, bytes, pieces and what fills it up."""
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n"]
    tokens += [chr(byte).encode() for byte in range(256)]
    tokens += [piece.encode() for piece in pieces]
    tokens += [f"#{n}".encode() for n in range(n_vocab - len(tokens))]
    text = struct.pack("<i", max(map(len, tokens)))
    for number, token in enumerate(tokens):
        score = -float(number - 258) if number > 258 else 0.0
        text += struct.pack("<fi", score, len(token)) + token
    return text


def checkpoint(shared: bool = True) -> tuple[bytes, dict[str, Array]]:
    """Return a checkpoint, and its tensors as run.c maps them."""
    n_embd, n_ff, n_layer, _, n_head_kv, n_vocab, n_ctx = SIZES
    n_kv = n_head_kv * HEAD_DIM
    shapes = {
        "token_embedding_table": (n_vocab, n_embd),
        "rms_att_weight": (n_layer, n_embd),
        "wq": (n_layer, n_embd, n_embd),
        "wk": (n_layer, n_kv, n_embd),
        "wv": (n_layer, n_kv, n_embd),
        "wo": (n_layer, n_embd, n_embd),
        "rms_ffn_weight": (n_layer, n_embd),
        "w1": (n_layer, n_ff, n_embd),
        "w2": (n_layer, n_embd, n_ff),
        "w3": (n_layer, n_ff, n_embd),
        "rms_final_weight": (n_embd,),
        "freq_cis_real": (n_ctx, HEAD_DIM // 2),
        "freq_cis_imag": (n_ctx, HEAD_DIM // 2),
    }
    if not shared:
        shapes["wcls"] = (n_vocab, n_embd)
    rng = np.random.default_rng(5)
    tensors = {
        name: rng.standard_normal(shape).astype("<f4") for name, shape in shapes.items()
    }
    sizes = (*SIZES[:5], n_vocab if shared else -n_vocab, n_ctx)
    content = struct.pack("<7i", *sizes)
    content += b"".join(value.tobytes() for value in tensors.values())
    return content, tensors


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "llama2.data"
    path.write_bytes(checkpoint()[0] + vocabulary(PIECES))
    return path


def rotated_pairs(x: Array, position: int) -> Array:
    """Rotate neighbours, as run.c does: [n_head*head_dim] -> the same."""
    y = x.astype(np.float64)
    for i in range(0, len(x), 2):
        angle = position / 10000.0 ** (i % HEAD_DIM / HEAD_DIM)
        a, b = float(x[i]), float(x[i + 1])
        y[i] = a * np.cos(angle) - b * np.sin(angle)
        y[i + 1] = a * np.sin(angle) + b * np.cos(angle)
    return y


def rotated_halves(x: Array, position: int) -> Array:
    """Rotate halves of each head, as Hugging Face does."""
    heads = x.astype(np.float64).reshape(-1, 2, HEAD_DIM // 2)
    angles = position / 10000.0 ** (np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    a, b = heads[:, 0], heads[:, 1]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([a * cos - b * sin, a * sin + b * cos], 1).reshape(-1)


def test_scores_of_queries_and_keys_stay_what_llama2c_computes(
    file: Path, tmp_path: Path
) -> None:
    _, tensors = checkpoint()
    to_safetensors(file, "x", tmp_path / "m")
    found = load_file(tmp_path / "m")
    n_head, n_head_kv = SIZES[3:5]
    x, y = np.random.default_rng(1).standard_normal((2, SIZES[0]))
    for layer in range(SIZES[2]):
        prefix = f"model.layers.{layer}.self_attn"
        ours = [
            rotated_halves(found[f"{prefix}.{name}_proj.weight"] @ value, position)
            for name, value, position in (("q", x, 5), ("k", y, 3))
        ]
        theirs = [
            rotated_pairs(tensors[name][layer] @ value, position)
            for name, value, position in (("wq", x, 5), ("wk", y, 3))
        ]
        for head in range(n_head):
            scores = []
            for q, k in (ours, theirs):
                own = q.reshape(n_head, -1)[head]
                scores.append(own @ k.reshape(n_head_kv, -1)[head // 2])
            assert scores[0] == pytest.approx(scores[1], rel=1e-6)


def test_every_other_tensor_is_taken_as_it_is(file: Path, tmp_path: Path) -> None:
    _, tensors = checkpoint()
    to_safetensors(file, "x", tmp_path / "m")
    found = load_file(tmp_path / "m")
    assert np.array_equal(
        found["model.embed_tokens.weight"], tensors["token_embedding_table"]
    )
    assert np.array_equal(found["model.norm.weight"], tensors["rms_final_weight"])
    for name, theirs in {
        "input_layernorm": "rms_att_weight",
        "self_attn.v_proj": "wv",
        "self_attn.o_proj": "wo",
        "post_attention_layernorm": "rms_ffn_weight",
        "mlp.gate_proj": "w1",
        "mlp.down_proj": "w2",
        "mlp.up_proj": "w3",
    }.items():
        for layer in range(SIZES[2]):
            ours = found[f"model.layers.{layer}.{name}.weight"]
            assert np.array_equal(ours, tensors[theirs][layer])
    assert len(found) == 2 + 9 * SIZES[2]


def test_a_head_of_its_own_is_behind_the_tables(tmp_path: Path) -> None:
    content, tensors = checkpoint(shared=False)
    (tmp_path / "x").write_bytes(content)
    to_safetensors(tmp_path / "x", "x", tmp_path / "m")
    assert np.array_equal(load_file(tmp_path / "m")["lm_head.weight"], tensors["wcls"])


def encode(text: str, pieces: list[str]) -> list[int]:
    """Encode as run.c does: characters first, then the best pair again and again."""
    ids = {piece: 259 + number for number, piece in enumerate(pieces)}
    names = {number: piece for piece, number in ids.items()}
    found = [1] + ([ids[" "]] if text else [])
    for character in text:
        fallback = [byte + 3 for byte in character.encode()]
        found += [ids[character]] if character in ids else fallback
    while True:
        pairs = [
            (ids.get(names.get(a, "\0") + names.get(b, "\0"), 10**9), i)
            for i, (a, b) in enumerate(pairwise(found))
        ]
        best, i = min(pairs, default=(10**9, 0))
        if best == 10**9:
            return found
        found[i : i + 2] = [best]


@pytest.mark.parametrize("alone", [True, False])
def test_the_tokenizer_encodes_as_llama2c_does(
    alone: bool, file: Path, tmp_path: Path
) -> None:
    if alone:
        file.write_bytes(vocabulary(PIECES))
    to_tokenizer(file, "x", tmp_path / "t.json")
    tokenizer = Tokenizer.from_file(str(tmp_path / "t.json"))
    rng = random.Random(2)
    texts = ["", " ", "the other 日本 é\n", "🙂", "a  b"]
    texts += [
        "".join(rng.choices("ther a\né日x", k=rng.randint(1, 30))) for _ in range(200)
    ]
    for text in texts:
        assert tokenizer.encode(text).ids == encode(text, PIECES), text
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_a_config_states_the_sizes_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(checkpoint(shared=False)[0])
    to_config(tmp_path / "x", "x", tmp_path / "config.json")
    found = json.loads((tmp_path / "config.json").read_text("utf-8"))
    names = "hidden_size intermediate_size num_hidden_layers num_attention_heads"
    names += " num_key_value_heads vocab_size max_position_embeddings"
    assert tuple(found[name] for name in names.split()) == SIZES
    assert found["tie_word_embeddings"] is False
    # run.c: ss += 1e-5f; powf(10000.0f, head_dim / (float)head_size)
    assert (found["rms_norm_eps"], found["rope_theta"]) == (1e-5, 10000.0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"short", "x: truncated; expected a header of 28 bytes"),
        (
            checkpoint()[0][:-1],
            f"x: truncated; expected at least {len(checkpoint()[0])} bytes, found"
            f" {len(checkpoint()[0]) - 1}\n  fetch it again",
        ),
        (
            struct.pack("<7i", 0x616B3432, 1, 16, 24, 2, 4, 2),
            "x: a checkpoint of a later version; expected version 0\n"
            "  python export.py --version 0",
        ),
        (
            struct.pack("<7i", 16, 24, 2, 3, 2, 300, 8) + bytes(9999),
            "x: not a checkpoint of llama2.c; found n_embd, n_ff, n_layer, n_head,"
            " n_head_kv, n_vocab, n_ctx = 16, 24, 2, 3, 2, 300, 8",
        ),
    ],
    ids=["header", "tensors", "version", "sizes"],
)
def test_another_file_is_refused(content: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(IngotError) as caught:
        to_safetensors(tmp_path / "x", "x", tmp_path / "m")
    assert str(caught.value) == told
    assert not (tmp_path / "m").exists()


def test_a_truncated_vocabulary_is_refused(file: Path, tmp_path: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(IngotError) as caught:
        to_tokenizer(file, "x", tmp_path / "t.json")
    assert str(caught.value) == (
        "x: no vocabulary of llama2.c; 299 tokens could be read\n"
        "  expected a tokenizer.bin, or a checkpoint that one follows"
    )


SOURCE = "{kind: llama2c, of: {kind: file, path: llama2.data, sha256: %s}}"


def written(root: Path, digest: str) -> Path:
    """Write a manifest whose weights and tokenizer llama2.c's file has."""
    path = place(root, GOOD)
    text = path.read_text("utf-8")
    text = text.replace("{kind: synthetic, seed: 1}", SOURCE % digest)
    path.write_text(f"{text}tokenizer: {SOURCE % digest}\n", "utf-8")
    (root / "models/llama2.data").write_bytes(checkpoint()[0] + vocabulary(PIECES))
    return path


def read(root: Path) -> Manifest:
    return read_manifest(written(root, "ab" * 32), root)


def test_the_conversions_are_actions(tmp_path: Path) -> None:
    manifest = read(tmp_path / "m")
    (weights,) = manifest.weights.source.files
    assert manifest.weights.source.config == Output(
        "fetch-convert:model.safetensors-abababababab", "config.json"
    )
    assert manifest.weights.source.origin == "llama2c of file llama2.data"
    assert weights.source == Output(
        "fetch-convert:model.safetensors-abababababab", "model.safetensors"
    )
    assert manifest.tokenizer
    for file in (weights, manifest.tokenizer):
        (action,) = plan_files(file)
        output = scratch.run(action, tmp_path / action.outputs[0])
        assert output.stat().st_size > 1000


def test_a_file_without_a_digest_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "ab" * 32)
    path.write_text(path.read_text("utf-8").replace(f", sha256: {'ab' * 32}", ""))
    lines = message(path, tmp_path).splitlines()
    assert lines[0] == (
        "models/small.yaml:10:31: weights.source.of: missing key 'sha256'"
    )
    assert "tokenizer.of: missing key 'sha256'" in lines[2]


def test_the_stories_are_downloaded_once_and_not_installed() -> None:
    manifest = read_manifest(ROOT / "models/stories15m.yaml", ROOT)
    assert manifest.tokenizer
    files = (*manifest.weights.source.files, manifest.tokenizer)
    tasks = {action.task for file in files for action in plan_files(file)}
    assert tasks == {
        "fetch:llama2.data-597a6652b5e5",
        "fetch-convert:model.safetensors-597a6652b5e5",
        "fetch-convert:tokenizer.json-597a6652b5e5",
    }
