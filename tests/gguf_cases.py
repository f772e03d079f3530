"""Write GGUF files for tests, and one model as GGUF and as safetensors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter

from ingot.codec import from_json
from ingot.programs.bake.main import bake
from ingot.programs.bake.spec import BakeSpec
from ingot.weights.rope_table import RopeTable
from tests.weights_cases import save

F32 = np.float32


def write_gguf(
    path: Path,
    tensors: dict[str, tuple[str, Any]],
    add: Callable[[GGUFWriter], None] = lambda writer: None,
    architecture: str = "llama",
) -> Path:
    """Write arrays, each with its type; those of block formats are bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, architecture)
    add(writer)
    for name, (element, values) in tensors.items():
        if element in ("F32", "F16"):
            writer.add_tensor(
                name, values.astype({"F32": "<f4", "F16": "<f2"}[element])
            )
            continue
        content = values
        if element == "BF16":
            content = values.astype(ml_dtypes.bfloat16).view(np.uint8)
        writer.add_tensor(name, content, raw_dtype=GGMLQuantizationType[element])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


# Block formats, value by value, from the C of the project that defines them.
# Source: ggml-org/llama.cpp, ggml/src/ggml-quants.c, dequantize_row_*.


def half(block: Any, at: int) -> Any:
    return F32(block[at : at + 2].view(np.float16)[0])


def nibbles(content: Any) -> list[int]:
    return [int(q) & 15 for q in content] + [int(q) >> 4 for q in content]


def fifth_bits(content: Any) -> list[int]:
    bits = int.from_bytes(content.tobytes(), "little")
    return [bits >> i & 1 for i in range(32)]


def q8_0(block: Any) -> list[Any]:
    return [half(block, 0) * F32(q) for q in block[2:].view(np.int8)]


def q4_0(block: Any) -> list[Any]:
    return [half(block, 0) * F32(q - 8) for q in nibbles(block[2:])]


def q4_1(block: Any) -> list[Any]:
    return [half(block, 0) * F32(q) + half(block, 2) for q in nibbles(block[4:])]


def q5_0(block: Any) -> list[Any]:
    pairs = zip(nibbles(block[6:]), fifth_bits(block[2:6]), strict=True)
    return [half(block, 0) * F32(q + 16 * bit - 16) for q, bit in pairs]


def q5_1(block: Any) -> list[Any]:
    pairs = zip(nibbles(block[8:]), fifth_bits(block[4:8]), strict=True)
    return [half(block, 0) * F32(q + 16 * bit) + half(block, 2) for q, bit in pairs]


def scale_and_least(j: int, q: Any) -> tuple[int, int]:
    """`get_scale_min_k4`: the j-th of eight pairs of six bits."""
    if j < 4:
        return q[j] & 63, q[j + 4] & 63
    return (
        (q[j + 4] & 15) | (q[j - 4] >> 6) << 4,
        (q[j + 4] >> 4) | (q[j] >> 6) << 4,
    )


def q4_k(block: Any, high: Any = None) -> list[Any]:
    scales, content = [int(q) for q in block[4:16]], block[-128:]
    values = []
    for j in range(8):
        scale, least = scale_and_least(j, scales)
        scale, least = half(block, 0) * F32(scale), half(block, 2) * F32(least)
        for i in range(32):
            q = int(content[j // 2 * 32 + i]) >> 4 * (j % 2) & 15
            if high is not None:
                q += 16 * (int(high[i]) >> j & 1)
            values.append(scale * F32(q) - least)
    return values


def q5_k(block: Any) -> list[Any]:
    return q4_k(block, block[16:48])


def q6_k(block: Any) -> list[Any]:
    scales = block[192:208].view(np.int8)
    values = []
    for i in range(256):
        part, quarter, place = i // 128, i % 128 // 32, i % 32
        low = int(block[part * 64 + quarter % 2 * 32 + place]) >> 4 * (quarter // 2)
        high = int(block[128 + part * 32 + place]) >> 2 * quarter
        q = (low & 15 | (high & 3) << 4) - 32
        values.append(half(block, 208) * F32(scales[i // 16]) * F32(q))
    return values


FORMATS: dict[str, tuple[Callable[[Any], list[Any]], tuple[int, ...]]] = {
    "Q8_0": (q8_0, (0,)),
    "Q4_0": (q4_0, (0,)),
    "Q4_1": (q4_1, (0, 2)),
    "Q5_0": (q5_0, (0,)),
    "Q5_1": (q5_1, (0, 2)),
    "Q4_K": (q4_k, (0, 2)),
    "Q5_K": (q5_k, (0, 2)),
    "Q6_K": (q6_k, (208,)),
}
"""By type: what a block means, and where it has float16 numbers."""


def random_blocks(element: str, rows: int, row_bytes: int, block_bytes: int) -> Any:
    """Rows of blocks whose bytes are random, and whose scales are small numbers."""
    rng = np.random.default_rng(7)
    blocks = rng.integers(0, 256, (rows * row_bytes // block_bytes, block_bytes))
    content = blocks.astype(np.uint8)
    for place in FORMATS[element][1]:
        scales = rng.uniform(0.01, 0.1, (len(content), 1)).astype(np.float16)
        content[:, place : place + 2] = scales.view(np.uint8)
    return content.reshape(rows, row_bytes)


def permute(weight: Any, heads: int) -> Any:
    """Rows of queries or keys as GGUF stores them.

    Source: ggml-org/llama.cpp, convert_hf_to_gguf.py, LlamaModel.permute.
    """
    halves = weight.reshape(heads, 2, len(weight) // heads // 2, *weight.shape[1:])
    return halves.swapaxes(1, 2).reshape(weight.shape)


class Twins:
    """A decoder of one layer, as a Hugging Face checkpoint and as a GGUF file."""

    ROPE = "rope.weight"

    def __init__(self, folder: Path, stored: str = "bf16") -> None:
        self.folder = folder
        self.element = stored.upper()
        rng = np.random.default_rng(11)
        self.parameters: list[dict[str, Any]] = []
        self.hf: dict[str, tuple[str, Any]] = {}
        self.gguf: dict[str, tuple[str, Any]] = {}
        for name, shape, more in (
            ("token_embd.weight", (12, 8), {}),
            ("output_norm.weight", (8,), {"offset": 1.0, "stored": "f32"}),
            ("blk.0.attn_q.weight", (16, 8), {"interleaved_heads": 2}),
            ("blk.0.attn_q.bias", (16,), {"interleaved_heads": 2}),
            ("blk.0.attn_k.weight", (8, 8), {"interleaved_heads": 1}),
        ):
            values = rng.standard_normal(shape).astype(ml_dtypes.bfloat16).astype(F32)
            self._add(name, values, {"stored": stored, **more})
        self._parameter(self.ROPE, (32, 8), {"table": asdict(RopeTable(10000.0))})

    def _add(self, name: str, values: Any, more: dict[str, Any]) -> None:
        tensor = f"model.{name}"
        self._parameter(name, values.shape, {"tensor": tensor, **more})
        raw = values.astype(ml_dtypes.bfloat16).view(np.uint16)
        self.hf[tensor] = (self.element, raw if self.element == "BF16" else values)
        if more.get("offset"):
            values = values + F32(more["offset"])
        if heads := more.get("interleaved_heads"):
            values = permute(values, heads)
        # Vectors are F32 in a GGUF file, whatever the rest is.
        self.gguf[name] = ("F32" if values.ndim == 1 else self.element, values)

    def _parameter(self, name: str, shape: Any, more: dict[str, Any]) -> None:
        self.parameters.append(
            {
                "name": name,
                "shape": list(shape),
                "tensor": name,
                "source": None,
                "stored": "f32",
                "offset": 0.0,
                "interleaved_heads": None,
                "table": None,
                **more,
            }
        )

    def write(self, file: str) -> Path:
        """Write the weights as a file of that name, where it is not there."""
        path = self.folder / "weights" / file
        if path.suffix == ".gguf":
            return write_gguf(path, self.gguf)
        path.parent.mkdir(parents=True, exist_ok=True)
        return save(path, self.hf) if path.suffix == ".safetensors" else path

    def bake(self, file: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """Bake the weights of that file; return the report."""
        self.write(file)
        monkeypatch.chdir(self.folder)
        hf = file.endswith(".safetensors")
        specification = {
            "model": "twins",
            "layout": "plain",
            "origin": f"file {file}",
            "seed": None,
            "splat": None,
            "files": [{"path": f"weights/{file}", "label": file, "sha256": None}],
            "ignore": [],
            "parameters": [
                item if hf else {**item, "tensor": item["name"]}
                for item in self.parameters
            ],
        }
        bake(from_json(BakeSpec, json.dumps(specification)))
        report: dict[str, Any] = json.loads(Path("bake.json").read_text())
        return report

    def errors(self, file: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What the bake says of the weights of that file."""
        with pytest.raises(ExceptionGroup) as caught:
            self.bake(file, monkeypatch)
        return [str(error) for error in caught.value.exceptions]

    def archive(self) -> bytes:
        """The archive that was baked last."""
        return (self.folder / "model.irpa").read_bytes()
