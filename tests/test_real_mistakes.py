"""Test that mistakes in the artifact of trained weights fail the check of a block.

Eight mistakes in stories15m on x86_64; nightly, all of them on every target, and on
SmolLM2 and Gemma 3. Each run prints how far beyond its limit each mistake is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from ingot.engine.task_records import Records
from ingot.model.component import Components
from ingot.model.manifest import read_manifest
from ingot.model.select_kernels import select_kernels
from ingot.model.target import read_target
from ingot.project.accepted_terms import VARIABLE, accepted
from ingot.project.catalogue import read
from tests.project import ROOT, Project, builds, skipped
from tests.real_mistake_list import gemma, llama
from tests.real_mistakes import Mistake, Model, shares

FEW = (
    "two heads of queries are exchanged",
    "ffn_down is another layer's",
    "+1 is added to the first norm",
    "a tile's column of values is 0",
    "the rope base is 1 % larger",
    "eps of the first norm is a tenth",
    "the window is shorter by one",
    "the mask is off by one",
)
STORIES = "stories15m"


def built(model: str, target: str, folder: Path) -> tuple[Model, list[Mistake]]:
    """Bake a model's weights as f32; return it with the mistakes that it can have."""
    project = Project.create(folder / "checkout", models=(model,))
    path = project.root / f"models/{model}.yaml"
    text = re.sub(r"stored: \w+", "stored: f32", path.read_text("utf-8"))
    path.write_text(text, encoding="utf-8")
    manifest = read_manifest(path, project.root, accepted=accepted())
    if manifest.weights.source.seed is not None:
        pytest.skip(f"{model} has synthetic weights until its terms are accepted")
    found = read_target(ROOT / f"targets/{target}.yaml", ROOT)
    run = project.doit("bake", f"model={model}", f"target={target}")
    assert run.code == 0, run.out + run.err
    graph = select_kernels(
        manifest.graph, manifest.weights.stored, found.layout, Components(ROOT)
    )
    record = Records(project.root / "build/.ingot/records.sqlite").get(
        f"bake:{model}@{graph.layout}"
    )
    assert record
    digest = dict(record.outputs)["model.irpa"].hash
    archive = folder / "model.irpa"
    archive.symlink_to(Path(os.environ["INGOT_CACHE"], "cas", digest[:2], digest))
    made = Model(graph, archive, found, folder)
    listed = gemma if manifest.architecture == "gemma3" else llama
    number = int(made.block("layer").name.partition(".")[2])
    return made, listed(number, dict(manifest.dims))


def judge(
    model: str,
    target: str,
    names: tuple[str, ...],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What this user has accepted, which no other test sees.
    monkeypatch.setenv(VARIABLE, os.environ.get("INGOT_TEST_ACCEPT", ""))
    made, mistakes = built(model, target, folder)
    if names:
        mistakes = [item for item in mistakes if item.name in names]
        assert len(mistakes) == len(names)
    found = shares(made, mistakes, monkeypatch)
    for name, share in sorted(found.items(), key=lambda item: item[1]):
        print(f"{share:12.3g} times the limit: {name}")
    right = {name: share for name, share in found.items() if name.startswith("right")}
    unseen = [name for name, share in found.items() if share <= 1 and name not in right]
    assert max(right.values()) <= 1
    assert unseen == []


@builds(STORIES)
def test_mistakes_in_trained_weights_fail_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(STORIES, "x86_64", FEW, tmp_path, monkeypatch)


MARKS = {
    "x86_64": [],
    "x86_64-v4": skipped(read(ROOT, []).settings.unrunnable, "x86_64-v4"),
    "aarch64": [pytest.mark.aarch64],
    "vulkan-llvmpipe": [pytest.mark.vulkan],
}
PAIRS = [
    *(pytest.param(STORIES, target, marks=marks) for target, marks in MARKS.items()),
    ("smollm2-135m-instruct", "x86_64"),
    ("gemma3-270m", "x86_64"),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("model", "target"), PAIRS)
def test_every_mistake_fails_the_check_on_every_target(
    model: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge(model, target, (), tmp_path, monkeypatch)
