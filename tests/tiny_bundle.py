"""Pack a bundle of the tiny model as the bundle stage packs it."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

from ingot.bundles import pack as packing
from ingot.bundles.contract import seal, unseal
from ingot.bundles.contract_types import SCHEMA
from tests.tiny_model import ROOT, Tiny, lay_out, run_stage

FILES = [
    "LICENSE",
    "README.md",
    "bundle.json",
    "check.json",
    "golden.json",
    "model.h",
    "model.irpa",
    "model.vmfb",
    "run.py",
    "run_text.py",
    "tokenizer.json",
]


# What `bundle.json` states of a model whose manifest states nothing.
GENERATION: dict[str, Any] = {
    "bos": None,
    "add_bos": False,
    "end_tokens": [],
    "stop": [],
    "chat_template": None,
    "unused": [],
}
TEXT = {"tokenizer": "tokenizer.json", "packages": ["tokenizers"]}
SHIPPED = ROOT / "ingot/bundles/shipped"


def specification() -> dict[str, Any]:
    return {
        "task": "bundle tiny@here",
        "bundle": "tiny-here",
        "files": FILES,
        "sources": ["models/licences/Apache-2.0.txt"],
        "weights_origin": "synthetic, seed 1",
        "contract": contract(),
    }


def contract() -> dict[str, Any]:
    """What the manifest and the target declare."""
    port = {"element": "i32", "shape": ["batch", "seq"]}
    embedding = {"element": "f32", "shape": ["batch", 2]}
    return {
        "schema": SCHEMA,
        "model": "tiny",
        "licence": "Apache-2.0",
        "weights": "synthetic weights, seed 1",
        "redistribution": "yes",
        "dims": {"n_vocab": 30522},
        "pooling": {"kind": "mean", "normalized": False},
        "sampling": None,
        "generation": None,
        "text": TEXT,
        "dynamic_dims": {
            "batch": {"min": 1, "max": 2},
            "seq": {"min": 1, "max": 32},
        },
        "entry_points": [
            {
                "name": "encode",
                "inputs": [
                    {"name": "tokens", "role": "tokens", **port},
                    {"name": "mask", "role": "mask", **port},
                ],
                "outputs": [{"name": "embedding", "role": "embedding", **embedding}],
                "in_place": [],
            }
        ],
        "target": {
            "name": "here",
            "summary": "this machine",
            "machine": None,
            "device": "local",
            "cpu_features": [],
            "layout": "plain",
            "compile_flags": [],
        },
        "compiler": {"package": "iree-base-compiler", "commands": [["iree-compile"]]},
    }


def pack(folder: Path, passed: bool = True) -> tuple[int, str]:
    folder.mkdir(parents=True, exist_ok=True)
    lay_out(folder, Tiny(passed=passed))
    ship(folder)
    (folder / "sources/models/licences").mkdir(parents=True)
    (folder / "sources/models/licences/Apache-2.0.txt").write_text("do as you like\n")
    return run_stage(folder, "bundle", specification())


def ship(folder: Path) -> None:
    """Copy the scripts that bundles have in them."""
    for script in SHIPPED.iterdir():
        if script.is_file():
            shutil.copy(script, folder)


def pack_whole(folder: Path) -> Path:
    """Pack a bundle that is right, and its tar; return the folder."""
    code, printed = pack(folder)
    assert code == 0, printed
    write_tar_of(folder / "bundle")
    return folder


def write_tar_of(bundle: Path) -> Path:
    """Write the tar of a bundle beside its folder; return its path."""
    path = bundle.parent / "tiny-here.tar"
    with path.open("wb") as file:
        packing.pack(bundle, file)
    return path


def resealed(bundle: Path, name: str, content: bytes) -> None:
    """Change a file as who packs a bundle could: with digests that are right."""
    (bundle / name).write_bytes(content)
    contract = unseal((bundle / "bundle.json").read_text())
    contract["files"][name] = {
        "sha256": hashlib.sha256(content).hexdigest(),
        "size_bytes": len(content),
    }
    (bundle / "bundle.json").write_text(seal(contract))
