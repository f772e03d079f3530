"""Test the bake as a program in a folder that contains only its inputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ingot.engine.actions import Action, InlineText, SourceFile
from ingot.model.manifest import Manifest, read_manifest
from ingot.model.manifest_folder import ManifestFolder
from ingot.model.source_sections import DirectorySection, FileSection
from ingot.model.weight_sources import find_weights
from ingot.stages import bake
from tests.gguf_cases import Twins, random_blocks, write_gguf
from tests.weights_cases import LABEL, ROOT, Toy, planned, save, specification


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)


def lay_out(action: Action, folder: Path) -> None:
    for name, source in action.inputs:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, InlineText):
            path.write_text(source.text)
        else:
            assert isinstance(source, SourceFile)
            path.symlink_to(source.path)


def run_bake(folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ingot.programs.bake.main", "spec.json"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_program_prints_errors_without_a_traceback(toy: Toy) -> None:
    toy.tensors["head"] = ("F32", np.ones((2, 3)))
    toy.tensors["emb"][1][4, 2] = np.nan
    toy.save()
    (toy.folder / "spec.json").write_text(json.dumps(toy.specification))
    done = run_bake(toy.folder, {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines()[::2] == [
        f"{LABEL}: tensor 'emb' has a value that is not finite; expected a number,"
        " found nan at [4, 2]",
        f"{LABEL}: no parameter reads tensor 'head' (F32[2, 3])",
    ]


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
    section = DirectorySection(kind="hf-directory", path="hf")
    action = planned(manifest, find_weights(section, ManifestFolder(toy.folder)))
    lay_out(action, work)
    spec = specification(action)
    spec.update(parameters=toy.specification["parameters"], ignore=[])
    (work / "spec.json").write_text(json.dumps(spec))
    done = run_bake(work, {"PYTHONPATH": "."})
    assert done.stdout + done.stderr == ""
    report = json.loads((work / "bake.json").read_text())
    assert [item["file"] for item in report["files"]] == [f"hf/{n}" for n in names]

    index["extra"] = names[0]
    (source / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": index})
    )
    done = run_bake(work, {"PYTHONPATH": "."})
    assert done.returncode == 1
    assert done.stderr.startswith(
        "model.safetensors.index.json: tensor 'extra': not where the index says;"
    )


def test_a_gguf_file_is_baked_from_its_declared_inputs_alone(
    tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins, work = Twins(tmp_path), tmp_path / "work"
    twins.bake("model.safetensors", monkeypatch)
    path = twins.write("model.gguf")
    section = FileSection(kind="gguf", path=path.name)
    action = planned(manifest, find_weights(section, ManifestFolder(path.parent)))
    lay_out(action, work)
    parameters = [{**item, "tensor": item["name"]} for item in twins.parameters]
    spec = {**specification(action), "parameters": parameters, "ignore": []}
    (work / "spec.json").write_text(json.dumps(spec))
    done = run_bake(work, {"PYTHONPATH": "."})
    assert done.stdout + done.stderr == ""
    assert (work / "model.irpa").read_bytes() == twins.archive()


@pytest.mark.slow
def test_the_real_model_is_baked_from_its_declared_inputs_alone(
    manifest: Manifest, tmp_path: Path
) -> None:
    lay_out(bake.plan_bake(manifest), tmp_path)
    done = run_bake(tmp_path, {"PYTHONPATH": "."})
    assert done.stdout + done.stderr == ""
    report = json.loads((tmp_path / "bake.json").read_text())
    assert report["totals"]["parameters"] == 101
    assert report["totals"]["size_bytes"] == 90_261_504


# Memory: 49 000 to 70 000 KiB were measured in every case below.


def peak(toy: Toy) -> int:
    """The most memory that the bake of the specification had, in KiB."""
    (toy.folder / "spec.json").write_text(json.dumps(toy.specification))
    program = (
        "import sys; sys.argv[1:] = ['spec.json'];"
        "from ingot.programs.bake.main import main; main();"
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
    return int(done.stdout)


@pytest.mark.parametrize("stored", ["f32", "bf16"])
def test_memory_does_not_grow_with_the_model(stored: str, toy: Toy) -> None:
    # 201 MB of weights, 34 MB each.
    tensors = {f"t{i}": ("F32", np.ones((2048, 4096), np.float32)) for i in range(6)}
    toy.tensors.clear()
    toy.tensors.update(tensors)
    toy.specification["parameters"] = [
        {**toy.parameter(name, [2048, 4096], name), "stored": stored}
        for name in tensors
    ]
    toy.save()
    assert peak(toy) < 120_000


def test_memory_does_not_grow_with_quantised_tensors(toy: Toy) -> None:
    # 134 MB of values in each.
    names = ("a", "b")
    content = random_blocks("Q8_0", 8192, 4352, 34)
    path = toy.folder / "weights/model.gguf"
    write_gguf(path, dict.fromkeys(names, ("Q8_0", content)))
    toy.specification["files"] = [
        {"path": "weights/model.gguf", "label": "model.gguf", "sha256": None}
    ]
    toy.specification["parameters"] = [
        {**toy.parameter(name, [8192, 4096], name), "source": None} for name in names
    ]
    assert peak(toy) < 120_000


@pytest.mark.slow
@pytest.mark.nightly
def test_memory_of_four_gigabytes_is_no_more(toy: Toy) -> None:
    shapes = {"token_embd.weight": [262144, 1024]}
    for layer in range(87):
        shapes[f"blk.{layer}.ffn_up.weight"] = [8192, 1024]
    toy.specification.update(seed=1, files=[], origin="synthetic, seed 1")
    toy.specification["parameters"] = [
        toy.parameter(name, shape, name) for name, shape in shapes.items()
    ]
    assert sum(rows * width * 4 for rows, width in shapes.values()) > 3.99e9
    # The largest tensor alone has 1.07 GB.
    assert peak(toy) < 120_000
