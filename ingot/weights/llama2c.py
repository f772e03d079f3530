"""Convert a checkpoint of llama2.c to safetensors, and its vocabulary to a JSON.

A checkpoint (version 0) is seven 32-bit integers and then float32 tensors, which belong
to all layers together. The vocabulary is a file of its own, or follows the tensors.

Source: karpathy/llama2.c, run.c (`Config`, `memory_map_weights`, `build_tokenizer`) and
export.py (`legacy_export`).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.errors import IngotError

if TYPE_CHECKING:
    import numpy as np

_HEADER = struct.Struct("<7i")
_MAGIC = 0x616B3432  # of versions 1 and 2
_TOKEN = struct.Struct("<fi")
_F32_BYTES = 4
_LIMIT = 1 << 24  # no size of a checkpoint reaches it

# Ids of Llama 2's SentencePiece vocabulary.
_SPECIAL = ("<unk>", "<s>", "</s>")
_FIRST_BYTE, _N_BYTES = 3, 256
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


@dataclass(frozen=True, slots=True)
class Header:
    """The sizes of a checkpoint."""

    n_embd: int
    n_ff: int
    n_layer: int
    n_head: int
    n_head_kv: int
    n_vocab: int
    n_ctx: int
    tied: bool  # the embedding is the output head too

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the tensors in the file's order: name and shape.

        `{layer}` in a name is the tensor's first dim. Rope tables have no name.
        """
        n_kv = self.n_head_kv * self.n_embd // self.n_head
        layers = "model.layers.{layer}."
        square = (self.n_layer, self.n_embd, self.n_embd)
        narrow = (self.n_layer, n_kv, self.n_embd)
        wide = (self.n_layer, self.n_ff, self.n_embd)
        norm = (self.n_layer, self.n_embd)
        table = (self.n_ctx, self.n_embd // self.n_head // 2)
        yield "model.embed_tokens.weight", (self.n_vocab, self.n_embd)
        yield f"{layers}input_layernorm.weight", norm
        yield f"{layers}self_attn.q_proj.weight", square
        yield f"{layers}self_attn.k_proj.weight", narrow
        yield f"{layers}self_attn.v_proj.weight", narrow
        yield f"{layers}self_attn.o_proj.weight", square
        yield f"{layers}post_attention_layernorm.weight", norm
        yield f"{layers}mlp.gate_proj.weight", wide
        yield (
            f"{layers}mlp.down_proj.weight",
            (self.n_layer, self.n_embd, self.n_ff),
        )
        yield f"{layers}mlp.up_proj.weight", wide
        yield "model.norm.weight", (self.n_embd,)
        yield from (("", table), ("", table))
        if not self.tied:
            yield "lm_head.weight", (self.n_vocab, self.n_embd)

    @property
    def size_bytes(self) -> int:
        """Return the size of the checkpoint, without a vocabulary behind it."""
        sizes = (math.prod(shape) for _, shape in self.tensors())
        return _HEADER.size + _F32_BYTES * sum(sizes)


def to_safetensors(path: Path, label: str, output: Path) -> None:
    """Write the checkpoint's weights as Hugging Face names and orders them.

    Raises: IngotError if the file is no such checkpoint, or is truncated.
    """
    import numpy as np

    header = _read_header(path, label)
    values = np.memmap(path, "<f4", "r", _HEADER.size, (_n_values(header),))
    written = dict(sorted(_tensors(header, values)))
    offset, described = 0, dict[str, Any]()
    for name, value in written.items():
        end = offset + value.nbytes
        offsets = [offset, end]
        described[name] = {
            "dtype": "F32",
            "shape": value.shape,
            "data_offsets": offsets,
        }
        offset = end
    text = json.dumps(described).encode()
    text += b" " * (-len(text) % 8)
    with output.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in written.values():
            file.write(np.ascontiguousarray(value).tobytes())


def to_config(path: Path, label: str, output: Path) -> None:
    """Write the config.json that Hugging Face keeps beside such weights.

    The file states its sizes; the rest is in run.c's code (`rmsnorm`, `forward`).

    Raises: IngotError if the file is no such checkpoint.
    """
    header = _read_header(path, label)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": header.n_embd,
        "intermediate_size": header.n_ff,
        "num_hidden_layers": header.n_layer,
        "num_attention_heads": header.n_head,
        "num_key_value_heads": header.n_head_kv,
        "vocab_size": header.n_vocab,
        "max_position_embeddings": header.n_ctx,
        "tie_word_embeddings": header.tied,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_bias": False,
        "mlp_bias": False,
    }
    output.write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def to_tokenizer(path: Path, label: str, output: Path) -> None:
    """Write the vocabulary as a tokenizer.json.

    The file is a vocabulary, or a checkpoint that one follows.

    Raises: IngotError if it is neither.
    """
    content = path.read_bytes()
    try:
        behind = content[_read_header(path, label).size_bytes :]
    except IngotError:
        behind = content
    scores = _read_vocabulary(behind, label)
    text = json.dumps(_tokenizer(scores), ensure_ascii=False, indent=1)
    output.write_text(text + "\n", encoding="utf-8")


def _read_header(path: Path, label: str) -> Header:
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        content = file.read(_HEADER.size)
    if len(content) < _HEADER.size:
        raise IngotError(f"{label}: truncated; expected a header of 28 bytes")
    n_embd, n_ff, n_layer, n_head, n_head_kv, n_vocab, n_ctx = _HEADER.unpack(content)
    sizes = (n_embd, n_ff, n_layer, n_head, n_head_kv, abs(n_vocab), n_ctx)
    if n_embd == _MAGIC:
        message = "a checkpoint of a later version; expected version 0"
        raise IngotError(f"{label}: {message}", "python export.py --version 0")
    fits = all(0 < size < _LIMIT for size in sizes)
    if not fits or n_embd % n_head or n_head % n_head_kv or n_embd // n_head % 2:
        names = "n_embd, n_ff, n_layer, n_head, n_head_kv, n_vocab, n_ctx"
        raise IngotError(
            f"{label}: not a checkpoint of llama2.c; found {names} ="
            f" {', '.join(map(str, sizes))}"
        )
    header = Header(*sizes, tied=n_vocab > 0)
    if size_bytes < header.size_bytes:
        raise IngotError(
            f"{label}: truncated; expected at least {header.size_bytes} bytes, found"
            f" {size_bytes}",
            "fetch it again",
        )
    return header


def _n_values(header: Header) -> int:
    return (header.size_bytes - _HEADER.size) // _F32_BYTES


def _tensors(
    header: Header, values: np.ndarray[Any, Any]
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the tensors of a Hugging Face checkpoint."""
    start = 0
    for name, shape in header.tensors():
        end = start + math.prod(shape)
        value, start = values[start:end].reshape(shape), end
        if "q_proj" in name:
            value = _halves(value, header.n_head)
        elif "k_proj" in name:
            value = _halves(value, header.n_head_kv)
        if "{layer}" in name:
            for layer, part in enumerate(value):
                yield name.format(layer=layer), part
        elif name:
            yield name, value


def _halves(value: np.ndarray[Any, Any], n_head: int) -> np.ndarray[Any, Any]:
    """Reorder the rows of each head: llama2.c rotates pairs, Hugging Face halves.

    Shapes: [n_layer, n_head*head_dim, n_embd] -> the same.
    """
    n_layer, n_rows, n_embd = value.shape
    pairs = value.reshape(n_layer, n_head, n_rows // n_head // 2, 2, n_embd)
    return pairs.swapaxes(2, 3).reshape(value.shape)


def _read_vocabulary(content: bytes, label: str) -> dict[str, float]:
    """Return the score of each token, in the order of their ids."""
    tokens: list[tuple[bytes, float]] = []
    start = _F32_BYTES  # behind the length of the longest token
    while start < len(content):
        if start + _TOKEN.size > len(content):
            raise _not_a_vocabulary(label, len(tokens))
        score, length = _TOKEN.unpack_from(content, start)
        start += _TOKEN.size
        if not 0 <= length <= len(content) - start:
            raise _not_a_vocabulary(label, len(tokens))
        tokens.append((content[start : start + length], score))
        start += length
    if len(tokens) < _FIRST_BYTE + _N_BYTES:
        raise _not_a_vocabulary(label, len(tokens))
    names = [_name(number, token) for number, (token, _) in enumerate(tokens)]
    scores = dict(zip(names, (score for _, score in tokens), strict=True))
    if len(scores) != len(tokens):
        raise _not_a_vocabulary(label, len(tokens))
    return scores


def _not_a_vocabulary(label: str, n_tokens: int) -> IngotError:
    return IngotError(
        f"{label}: no vocabulary of llama2.c; {n_tokens} tokens could be read",
        "expected a tokenizer.bin, or a checkpoint that one follows",
    )


def _name(number: int, token: bytes) -> str:
    """Return a token's name in SentencePiece's vocabulary."""
    if number < _FIRST_BYTE:
        return _SPECIAL[number]
    if number < _FIRST_BYTE + _N_BYTES:
        return f"<0x{number - _FIRST_BYTE:02X}>"
    return token.decode(errors="replace").replace(" ", _SPACE)


def _tokenizer(scores: dict[str, float]) -> dict[str, Any]:
    """Return Llama 2's tokenizer with this vocabulary, as `tokenizers` writes it."""
    spaces = {"pattern": {"String": " "}, "content": _SPACE}
    start = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    rest = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, name in enumerate(_SPECIAL)
        ],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": _SPACE},
                {"type": "Replace", **spaces},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [start, rest],
            "pair": [start, rest, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {
                    "type": "Replace",
                    "pattern": {"String": _SPACE},
                    "content": " ",
                },
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": "<unk>",
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": False,
            "vocab": {name: number for number, name in enumerate(scores)},
            "merges": [" ".join(pair) for pair in merges(scores)],
        },
    }


def merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """Return the pairs of tokens that make a token, in the order of merging.

    SentencePiece merges the pair whose token has the best score first.
    """
    found = [
        (token[:cut], token[cut:])
        for token in scores
        for cut in range(1, len(token))
        if token[:cut] in scores and token[cut:] in scores
    ]
    return sorted(found, key=lambda pair: (-scores["".join(pair)], -len(pair[0])))
