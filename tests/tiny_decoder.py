"""Provide a bundle of a decoder that computes by arithmetic: data/tiny/decoder.mlir."""

from __future__ import annotations

import copy
import hashlib
import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ingot.bundles.contract import seal
from ingot.bundles.contract_types import SCHEMA
from tests.tiny_bundle import GENERATION, TEXT
from tests.tiny_model import DATA, ROOT, compiled

BYTES = ROOT / "models/tokenizers/bytes.json"
N_VOCAB, N_KNOWN, N_CTX, N_SEQ = 300, 258, 64, 16
W = 7
BOS, EOS = 256, 257
CACHE = {
    "name": "cache",
    "role": "cache",
    "element": "f32",
    "shape": [1, "batch", "ctx", 2],
}


def following(prompt: str, count: int) -> list[int]:
    """The tokens that the model says after a prompt, the end among them."""
    tokens = [BOS, *prompt.encode()]
    made: list[int] = []
    while len(made) < count and EOS not in made:
        made.append((W + sum(tokens) + sum(made)) % N_KNOWN)
    return made


def text_of(tokens: list[int]) -> str:
    """The text of tokens, as Unicode says that broken UTF-8 is to be shown."""
    return bytes(t for t in tokens if t < 256).decode(errors="replace")


def contract() -> dict[str, Any]:
    """What bundle.json says, without files."""
    limits = {"batch": 1, "seq": N_SEQ, "ctx": N_CTX}
    return {
        "schema": SCHEMA,
        "model": "tiny",
        "dims": {"n_vocab": N_VOCAB, "n_ctx": N_CTX},
        "generation": copy.deepcopy(GENERATION),
        "text": TEXT,
        "dynamic_dims": {dim: {"min": 1, "max": n} for dim, n in limits.items()},
        "entry_points": [
            entry_point("prefill", ("tokens", "start", "last_index")),
            entry_point("decode", ("tokens", "start")),
        ],
        "parameters": {"archive": "model.irpa", "scope": "model"},
        "runtime": {
            "package": "iree-base-runtime",
            "version": importlib.metadata.version("iree-base-runtime"),
        },
        "target": {
            "name": "here",
            "device": "local",
            "machine": None,
            "cpu_features": [],
            "compile_flags": [],
        },
    }


def entry_point(name: str, roles: tuple[str, ...]) -> dict[str, Any]:
    """What it says of an entry point with inputs of these roles, and the cache."""
    ids = [
        {
            "name": role,
            "role": role,
            "element": "i32",
            "shape": ["batch", "seq"] if role == "tokens" else ["batch"],
        }
        for role in roles
    ]
    logits = {"name": "logits", "role": "logits", "element": "f32"}
    return {
        "name": name,
        "inputs": [*ids, CACHE],
        "outputs": [{**logits, "shape": ["batch", 1, N_VOCAB]}, CACHE],
        "in_place": [{"input": "cache", "output": "cache"}],
    }


def lay_out(folder: Path) -> Path:
    """Write the bundle's files; return the folder, for `sealed`."""
    from iree.runtime import ParameterIndex

    folder.mkdir(parents=True)
    text = (DATA / "decoder.mlir").read_text(encoding="utf-8")
    (folder / "model.vmfb").write_bytes(compiled(text))
    index = ParameterIndex()
    described = 'TENSORv0:{"type": "Tensor", "dtype": "float32", "shape": [1]}'
    value = np.array([W], np.float32).tobytes()
    index.add_buffer("w", value, metadata=described)
    index.create_archive_file(str(folder / "model.irpa"))
    shutil.copy(BYTES, folder / "tokenizer.json")
    return sealed(folder, contract())


def sealed(folder: Path, content: dict[str, Any]) -> Path:
    """Write bundle.json for the files that are there; return the folder."""
    files = {
        path.name: {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "size_bytes": path.stat().st_size,
        }
        for path in folder.iterdir()
        if path.name != "bundle.json"
    }
    (folder / "bundle.json").write_text(seal({**content, "files": files}))
    return folder
