"""Write safetensors files for tests, and a small model that is baked from one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.codec import from_json
from ingot.engine.actions import Action, InlineText
from ingot.errors import IngotError
from ingot.model.manifest import Manifest
from ingot.model.weight_sources import WeightSource
from ingot.programs.bake import main as bake_main
from ingot.programs.bake.spec import BakeSpec
from ingot.stages import bake
from ingot.weights.irpa import read_archive
from ingot.weights.safetensors import read_header

ROOT = Path(__file__).parents[1]
DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8"}
LABEL = "toy/model.safetensors"


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


TWO = {"a": entry([2], 0, 8), "b": entry([2], 8, 16)}


def write(path: Path, header: Any, data: bytes = b"") -> Path:
    """Write a safetensors file of this header, right or wrong; bytes are its text."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def message(path: Path) -> str:
    """Return the reader's error for a file."""
    with pytest.raises(IngotError) as caught:
        read_header(path, "w.safetensors")
    return str(caught.value)


def save(path: Path, tensors: dict[str, tuple[str, Any]]) -> Path:
    """Write arrays, each with its element type, as a safetensors file."""
    header, data = {}, b""
    for name, (element, values) in tensors.items():
        content = np.ascontiguousarray(values).astype(DTYPES[element]).tobytes()
        end = len(data) + len(content)
        header[name] = entry(list(np.shape(values)), len(data), end, element)
        data += content
    return write(path, header, data)


class Toy:
    """A model of three parameters in a folder of its own, and the bake of it."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(5)
        self.folder = folder
        self.tensors: dict[str, tuple[str, Any]] = {
            "emb": ("F32", rng.standard_normal((6, 4), np.float32)),
            "lin.w": ("F32", rng.standard_normal((4, 4), np.float32)),
            "lin.b": ("F32", rng.standard_normal(4, np.float32)),
        }
        self.specification: dict[str, Any] = {
            "model": "toy",
            "layout": "plain",
            "origin": "file model.safetensors",
            "seed": None,
            "splat": None,
            "files": [
                {"path": "weights/model.safetensors", "label": LABEL, "sha256": None}
            ],
            "ignore": [],
            "parameters": [
                self.parameter("token_embd.weight", [6, 4], "emb"),
                self.parameter("blk.0.ffn_up.weight", [4, 4], "lin.w"),
                self.parameter("blk.0.ffn_up.bias", [4], "lin.b"),
            ],
        }

    @staticmethod
    def parameter(name: str, shape: list[int], tensor: str) -> dict[str, Any]:
        return {
            "name": name,
            "shape": shape,
            "tensor": tensor,
            "source": "f32",
            "stored": "f32",
            "offset": 0.0,
            "interleaved_heads": None,
            "table": None,
        }

    def save(self) -> Path:
        path = self.folder / "weights/model.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        return save(path, self.tensors)

    def bake(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        self.save()
        monkeypatch.chdir(self.folder)
        bake_main.bake(from_json(BakeSpec, json.dumps(self.specification)))
        report: dict[str, Any] = json.loads(Path("bake.json").read_text())
        return report

    def errors(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        with pytest.raises(ExceptionGroup) as caught:
            self.bake(monkeypatch)
        return [str(error) for error in caught.value.exceptions]

    def archived(self) -> dict[str, bytes]:
        path = self.folder / "model.irpa"
        content = path.read_bytes()
        return {
            entry.key: content[entry.offset : entry.offset + entry.size_bytes]
            for entry in read_archive(path)
        }


def planned(manifest: Manifest, source: WeightSource) -> Action:
    weights = replace(manifest.weights, source=source)
    return bake.plan_bake(replace(manifest, weights=weights))


def specification(action: Action) -> dict[str, Any]:
    text = dict(action.inputs)["spec.json"]
    assert isinstance(text, InlineText)
    value: dict[str, Any] = json.loads(text.text)
    return value
