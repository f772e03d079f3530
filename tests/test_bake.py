"""Test what the bake writes into the archive and its report."""

from __future__ import annotations

import hashlib
from pathlib import Path

import iree.runtime
import ml_dtypes
import numpy as np
import pytest

from ingot.weights.element_types import decode, encode
from tests.weights_cases import LABEL, Toy


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


def test_the_archive_holds_the_parameters_under_their_names_sorted(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.bake(monkeypatch)
    archived = toy.archived()
    assert list(archived) == [
        "blk.0.ffn_up.bias",
        "blk.0.ffn_up.weight",
        "token_embd.weight",
    ]
    assert archived["token_embd.weight"] == toy.tensors["emb"][1].tobytes()
    assert archived["blk.0.ffn_up.weight"] == toy.tensors["lin.w"][1].tobytes()
    assert not (toy.folder / "converted.bin").exists()


def test_the_runtime_reads_shapes_and_types_of_the_archive(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.bake(monkeypatch)
    index = iree.runtime.ParameterIndex()
    index.load("model.irpa")
    entry = dict(index.items())["token_embd.weight"]
    array = iree.runtime.parameter_index_entry_as_numpy_ndarray(entry)
    np.testing.assert_array_equal(array, toy.tensors["emb"][1], strict=True)


def test_the_report_says_what_every_parameter_was_made_of(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.tensors["ids"] = ("I64", np.arange(3))
    toy.specification["ignore"] = ["id*"]
    report = toy.bake(monkeypatch)
    file = (toy.folder / "weights/model.safetensors").read_bytes()
    bias = toy.tensors["lin.b"][1].tobytes()
    assert report["files"] == [
        {
            "file": LABEL,
            "size_bytes": len(file),
            "sha256": hashlib.sha256(file).hexdigest(),
        }
    ]
    assert report["ignored"] == ["ids"]
    assert report["parameters"][0] == {
        "name": "blk.0.ffn_up.bias",
        "type": "f32",
        "shape": [4],
        "size_bytes": 16,
        "sha256": hashlib.sha256(bias).hexdigest(),
        "source": {"file": LABEL, "tensor": "lin.b", "type": "f32"},
    }
    assert report["totals"] == {
        "parameters": 3,
        "elements": 44,
        "size_bytes": 176,
        "archive_bytes": (toy.folder / "model.irpa").stat().st_size,
    }


def test_baking_twice_gives_the_same_bytes(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.bake(monkeypatch)
    first = [(toy.folder / name).read_bytes() for name in ("model.irpa", "bake.json")]
    toy.specification["parameters"].reverse()
    toy.bake(monkeypatch)
    again = [(toy.folder / name).read_bytes() for name in ("model.irpa", "bake.json")]
    assert first == again


def test_a_copy_of_the_embedding_as_head_of_a_tied_model_is_left_out(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.bake(monkeypatch)
    without = toy.archived()
    toy.tensors["lm_head.weight"] = toy.tensors["emb"]
    report = toy.bake(monkeypatch)
    assert toy.archived() == without
    assert report["ignored"] == ["lm_head.weight"]


# Types.


@pytest.mark.parametrize("stored", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
def test_types_are_converted_as_ml_dtypes_converts_them(
    source: str, stored: str, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    given = toy.tensors["emb"][1].astype(names[source])
    content = given.view(np.uint16) if source == "bf16" else given
    toy.tensors["emb"] = (source.upper(), content)
    toy.specification["parameters"][0].update(source=source, stored=stored)
    report = toy.bake(monkeypatch)
    expected = given.astype(np.float32).astype(names[stored]).tobytes()
    assert toy.archived()["token_embd.weight"] == expected
    assert report["parameters"][2]["type"] == stored
    assert report["parameters"][2]["size_bytes"] == len(expected)
    # Where the policy does not say it, the file does.
    toy.specification["parameters"][0]["source"] = None
    assert toy.bake(monkeypatch) == report


def test_rounding_to_bf16_is_to_nearest_even_for_every_kind_of_float() -> None:
    bits = np.random.default_rng(1).integers(0, 2**32, 200_000, np.uint32)
    edges = [0x3F808000, 0x3F818000, 0x3F808001, 0x00000001, 0x80000000, 0x7F7FFFFF]
    values = np.concatenate([bits, np.array(edges, np.uint32)]).view(np.float32)
    values = values[np.isfinite(values)]
    assert encode(values, "bf16") == values.astype(ml_dtypes.bfloat16).tobytes()
    back = decode(memoryview(encode(values, "bf16")), "bf16")
    np.testing.assert_array_equal(
        back, values.astype(ml_dtypes.bfloat16).astype(np.float32)
    )


# Synthetic weights.


def test_synthetic_weights_are_the_same_every_time(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.specification.update(seed=3, files=[], origin="synthetic, seed 3")
    toy.bake(monkeypatch)
    first = toy.archived()
    # Each parameter has a stream of its own: a new one changes none of the others.
    toy.specification["parameters"].append(toy.parameter("a.weight", [8, 8], "a"))
    toy.bake(monkeypatch)
    assert {name: toy.archived()[name] for name in first} == first
    toy.specification["seed"] = 4
    toy.bake(monkeypatch)
    assert all(toy.archived()[name] != content for name, content in first.items())


def test_synthetic_weights_are_those_that_were_always_made(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.specification.update(seed=3, files=[], origin="synthetic, seed 3")
    toy.bake(monkeypatch)
    bias = np.frombuffer(toy.archived()["blk.0.ffn_up.bias"], np.float32)
    expected = [-0.028598666, 0.019368537, -0.020067586, -0.005009063]
    np.testing.assert_allclose(bias, expected, rtol=1e-6)


def test_synthetic_weights_are_scaled_as_initialisers_scale_them(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = {
        "token_embd.weight": [500, 64],
        "token_embd_norm.weight": [5000],
        "blk.0.ffn_up.weight": [300, 400],
        "blk.0.ffn_up.bias": [5000],
    }
    toy.specification.update(seed=0, files=[], origin="synthetic, seed 0")
    toy.specification["parameters"] = [
        toy.parameter(name, shape, name) for name, shape in shapes.items()
    ]
    toy.bake(monkeypatch)
    found = {
        name: np.frombuffer(content, np.float32)
        for name, content in toy.archived().items()
    }
    mean = {name: float(values.mean()) for name, values in found.items()}
    scale = {name: float(values.std()) for name, values in found.items()}
    assert mean == pytest.approx(
        dict.fromkeys(shapes, 0.0) | {"token_embd_norm.weight": 1.0}, abs=2e-3
    )
    assert scale == pytest.approx(
        dict.fromkeys(shapes, 0.02) | {"blk.0.ffn_up.weight": 0.05}, rel=0.05
    )
