"""Test archives without content, in which every weight is one number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine.actions import Action
from ingot.errors import IngotError
from ingot.model.manifest import read_manifest
from ingot.model.weight_sources import WeightSource
from ingot.project.catalogue import Selection, read
from ingot.stages import bake
from ingot.weights.irpa import SplatSource, write_splats
from tests.command_calls import run
from tests.project import ROOT, Project
from tests.weights_cases import Toy


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


def test_an_archive_of_a_splat_has_all_parameters_and_no_content(
    toy: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iree.runtime import ParameterIndex

    toy.specification.update(splat=0.25, files=[], origin="splat of 0.25")
    huge = toy.parameter("blk.0.ffn_up_exps.weight", [8, 32768, 6144], "up")
    toy.specification["parameters"].append(huge)
    toy.bake(monkeypatch)
    path = toy.folder / "model.irpa"
    assert path.stat().st_size <= 4096
    index = ParameterIndex()
    index.load(str(path))
    found = dict(index.items())
    report = json.loads((toy.folder / "bake.json").read_text())
    assert list(found) == [item["name"] for item in report["parameters"]]
    assert found[huge["name"]].length == 8 * 32768 * 6144 * 4
    assert all(entry.is_splat for entry in found.values())
    assert report["totals"]["elements"] > 8 * 32768 * 6144


def test_an_archive_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nowhere/model.irpa"
    with pytest.raises(IngotError, match=r"model\.irpa: cannot be written"):
        write_splats(path, [SplatSource("w", b"\0\0\0\0", 8, "")])


def test_a_splat_has_no_file_and_every_byte_of_it_is_in_the_key() -> None:
    manifest = read_manifest(ROOT / "models/toy-moe.yaml", ROOT)

    def planned(value: float) -> Action:
        weights = replace(manifest.weights, source=WeightSource("", splat=value))
        return bake.plan_bake(replace(manifest, weights=weights))

    assert not [name for name, _ in planned(1.0).inputs if "weights/model" in name]
    assert planned(1.0) != planned(2.0)
    assert planned(1.0) == planned(1.0)


def test_a_splat_is_compiled_and_baked_and_nothing_else() -> None:
    names = ("mixtral-8x7b", "toy-moe")
    found = read(ROOT, names).plan
    one = Selection(("mixtral-8x7b",), ("x86_64",))
    tasks = ("compile-configured:mixtral-8x7b@x86_64", "compile:mixtral-8x7b@x86_64")
    assert found.selected("compile", one) == tasks
    assert "bake:mixtral-8x7b@packed_n8" in found.selected("bake", one)
    for stage in ("check", "bench", "bundle"):
        assert found.selected(stage, one) == ()
    assert found.compiled_only(Selection(names, ("x86_64",))) == ["mixtral-8x7b"]
    ends = found.ends(Selection(names, ("x86_64",)))
    assert {"compile:mixtral-8x7b@x86_64", "bundle:toy-moe@x86_64"} <= set(ends)
    mixtral = [task for task in found.by_task if "mixtral-8x7b" in task]
    assert not [task for task in mixtral if task.startswith(("check", "link-block"))]
    both = found.selected("bundle", Selection(names, ("x86_64",)))
    assert both == ("bundle:toy-moe@x86_64",)


@pytest.mark.parametrize(
    ("command", "word"), [("run", "input"), ("generate", "prompt"), ("ablate", "modes")]
)
def test_a_splat_is_not_run_and_nothing_is_built_for_it(
    monkeypatch: pytest.MonkeyPatch, command: str, word: str
) -> None:
    words = {"model": "mixtral-8x7b", "target": "x86_64", word: "input"}
    monkeypatch.chdir(ROOT)
    with pytest.raises(IngotError) as caught:
        run(command, **words)
    assert str(caught.value) == (
        "mixtral-8x7b: only compiled, because its weights are a splat\n"
        "  give it weights to run it: weights.source in models/mixtral-8x7b.yaml"
    )


def test_why_looks_at_all_that_a_splat_is_built_of(tmp_path: Path) -> None:
    project = Project.create(
        tmp_path / "checkout", tmp_path / "cache", models=("gemma3-1b",)
    )
    run = project.doit("why", "model=gemma3-1b", "target=x86_64")
    assert run.code == 0, run.err
    for task in ("compile:gemma3-1b@x86_64", "bake:gemma3-1b@packed_n8"):
        assert f"{task} would run:" in run.out


def test_gemma_of_1b_differs_from_that_of_270m_by_dims_alone() -> None:
    small, large = (
        read_manifest(ROOT / f"models/gemma3-{size}.yaml", ROOT)
        for size in ("270m", "1b")
    )
    assert small.architecture == large.architecture
    differing = {"n_embd", "n_ff", "n_layer"}
    assert {name for name, _ in set(small.dims) ^ set(large.dims)} == differing
    scales = set(small.hyperparameters) ^ set(large.hyperparameters)
    assert {name for name, _ in scales} == {"embedding_scale"}
    kinds = [block.kind for block in large.graph.entry_points[0].blocks]
    layers = [kind for kind in kinds if kind.startswith("layer.")]
    every_sixth = [i for i, kind in enumerate(layers) if kind == "layer.global"]
    assert every_sixth == [5, 11, 17, 23]
