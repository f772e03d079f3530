"""Test that the safetensors reader agrees with the library."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from ingot.errors import IngotError
from ingot.weights.safetensors import read_chunks, read_header
from tests.weights_cases import TWO, entry, message, write


def test_tensors_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": entry([2, 2], 0, 16),
        "a": entry([3], 16, 22, "BF16"),
        "empty": entry([0, 7], 16, 16),
        "scalar": entry([], 22, 30, "I64"),
    }
    path = write(tmp_path / "w.safetensors", header, bytes(range(30)))
    tensors = read_header(path, "w.safetensors")
    assert [tensor.name for tensor in tensors] == ["b", "empty", "a", "scalar"]
    assert [str(tensor) for tensor in tensors] == [
        "F32[2, 2]",
        "F32[0, 7]",
        "BF16[3]",
        "I64[]",
    ]
    data = {
        tensor.name: b"".join(map(bytes, read_chunks(path, tensor, 5)))
        for tensor in tensors
    }
    assert data == {
        "b": bytes(range(16)),
        "empty": b"",
        "a": bytes(range(16, 22)),
        "scalar": bytes(range(22, 30)),
    }


def test_padding_after_the_header_is_read_over(tmp_path: Path) -> None:
    text = json.dumps({"a": entry([1], 0, 4)}).encode() + b"   "
    path = write(tmp_path / "w.safetensors", text, b"abcd")
    (tensor,) = read_header(path, "w.safetensors")
    assert [bytes(chunk) for chunk in read_chunks(path, tensor, 64)] == [b"abcd"]


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a": ' * 5_000,
        b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b"]}}",
        json.dumps({"a": entry([2**62] * 64, 0, 4)}).encode(),
        json.dumps({"a": entry([2**62] * 100_000, 0, 4)}).encode(),
        json.dumps({"x" * 100_000: 1}).encode(),
    ],
    ids=["deep", "nested", "huge_number", "huge_product", "huge_rank", "long_name"],
)
def test_hostile_headers_cost_little(text: bytes, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    message(write(tmp_path / "w.safetensors", text))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_maxrss - before.ru_maxrss < 50_000  # KiB
    assert after.ru_utime - before.ru_utime < 2  # s


def _library(path: Path) -> dict[str, tuple[str, list[int]]] | None:
    try:
        with safetensors.safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {
                name: (item.get_dtype(), item.get_shape())
                for name, item in slices.items()
            }
    except Exception:
        return None


def test_damaged_headers_are_refused_or_read_as_the_library_reads_them(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(7)
    header = {
        "__metadata__": {"format": "pt"},
        **TWO,
        "c": entry([1, 2], 16, 20, "F16"),
    }
    good = write(tmp_path / "good", header, b"x" * 20).read_bytes()
    refused = 0
    for _ in range(3000):
        damaged = bytearray(good)
        for _ in range(rng.integers(1, 3)):
            damaged[rng.integers(len(good) - 20)] = rng.choice(
                np.frombuffer(b'0123456789{}[],:"FabU \xff\x00', np.uint8)
            )
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        try:
            found = read_header(path, "damaged")
        except IngotError:
            refused += 1
            continue
        assert _library(path) == {
            item.name: (item.element, list(item.shape)) for item in found
        }
    assert 1000 < refused < 3000


def test_a_real_model_is_read_as_the_library_reads_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arrays: dict[str, np.ndarray] = {
        "f": rng.standard_normal((3, 5), dtype=np.float32),
        "h": rng.standard_normal((7,)).astype(np.float16),
        "i": np.arange(4),
    }
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(arrays, path, metadata={"format": "pt"})
    for tensor in read_header(path, "model.safetensors"):
        data = b"".join(map(bytes, read_chunks(path, tensor, 6)))
        assert data == arrays[tensor.name].tobytes()
