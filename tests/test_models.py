"""Test all-MiniLM-L6-v2 with its real weights on every target that runs here.

The tests look at what is shipped: each target's bundle and its check report. Outside of
the nightly run, all targets but one get 2 layers: they share the graph and the oracle.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.project.catalogue import read
from tests.project import ROOT, Project, builds, edit, skipped

pytestmark = builds("all-minilm-l6-v2")

MODEL = "all-minilm-l6-v2"
SETTINGS = read(ROOT, ()).settings
MARKS = {
    "aarch64": [pytest.mark.aarch64],
    "vulkan": [pytest.mark.vulkan],
    "vulkan-llvmpipe": [pytest.mark.vulkan],
}
WHOLE, OFTEN = "x86_64", ("aarch64", "vulkan", "x86_64-v4")
TARGETS = [
    pytest.param(
        name,
        marks=[
            pytest.mark.slow,
            *([pytest.mark.nightly] if name != WHOLE else []),
            *MARKS.get(name, []),
            *skipped(SETTINGS.unrunnable, name),
        ],
    )
    for name in SETTINGS.targets
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout with the shipped models; nothing is built yet."""
    base = tmp_path_factory.mktemp("models")
    return Project.create(base / "checkout", models=(MODEL,))


@pytest.mark.parametrize("target", TARGETS)
def test_the_model_is_right_at_every_level(project: Project, target: str) -> None:
    run = project.build(f"target={target}")
    assert run.done[f"bundle:{MODEL}@{target}"] in ("ran", "restored")
    folder = project.root / "build" / MODEL / target
    rows = json.loads((folder / "check.json").read_text())["rows"]
    levels = {row["level"] for row in rows}
    assert levels == {"component", "block", "propagated", "model", "golden", "tokens"}
    assert all(row["passed"] for row in rows)
    judged_by_golden(rows)
    packed = project.doit("tar", f"model={MODEL}", f"target={WHOLE}")
    assert packed.code == 0, packed.err
    tar = packed.out.partition(": ")[0]
    verified = project.doit("verify", f"bundle={tar}")
    assert verified.code == 0, verified.err
    assert "sentences of the golden file" in verified.out


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(
            name,
            marks=[
                pytest.mark.slow,
                *([] if name in OFTEN else [pytest.mark.nightly]),
                *MARKS.get(name, []),
                *skipped(SETTINGS.unrunnable, name),
            ],
        )
        for name in SETTINGS.targets
        if name != WHOLE
    ],
)
def test_two_layers_of_the_model_are_right_at_its_widths(
    tmp_path: Path, target: str
) -> None:
    project = Project.create(tmp_path / "checkout", models=(MODEL,))
    manifest = project.root / f"models/{MODEL}.yaml"
    edit(manifest, "n_layer: 6", "n_layer: 2")
    unread = ", ".join(f'"encoder.layer.{layer}.*"' for layer in range(2, 6))
    edit(manifest, '"pooler.dense.*"', f'"pooler.dense.*", {unread}')
    edit(manifest, f"check:\n  golden: golden/{MODEL}.npz\n", "")
    run = project.doit("check", f"target={target}")
    assert run.code == 0, run.err
    path = project.root / f"build/{MODEL}/{target}/check.json"
    rows = json.loads(path.read_text())["rows"]
    levels = {row["level"] for row in rows}
    assert levels == {"component", "block", "propagated", "model", "tokens"}
    assert all(row["passed"] for row in rows)


def judged_by_golden(rows: list[dict[str, Any]]) -> None:
    """Hold the project's own bar, whatever a target's file says."""
    golden = [row for row in rows if row["level"] == "golden"]
    alone = [row for row in golden if row["inputs"]["batch"] == 1]
    assert len(alone) >= 32
    assert max(row["inputs"]["seq"] for row in alone) >= 200
    assert any(row["inputs"]["batch"] == 8 for row in golden)
    assert max(row["max_abs_error"] for row in golden) <= 2e-5
    assert len([row for row in rows if row["level"] == "tokens"]) >= 32


def test_a_target_that_does_not_run_here_is_skipped_with_the_reason() -> None:
    assert [case.values[0] for case in TARGETS] == list(SETTINGS.targets)
    for case in TARGETS:
        reasons = [m.kwargs["reason"] for m in case.marks if m.name == "skip"]
        reason = SETTINGS.unrunnable.get(str(case.values[0]))
        assert reasons == ([reason] if reason else [])


@pytest.mark.slow
def test_a_wrong_hyperparameter_is_caught_by_the_golden_sentences(
    project: Project, tmp_path: Path
) -> None:
    # Oracle and artifact read the same manifest, so only the reference can tell.
    other = Project.create(tmp_path / "checkout", models=(MODEL,))
    manifest = other.root / f"models/{MODEL}.yaml"
    edit(manifest, "layer_norm_eps: 1.0e-12", "layer_norm_eps: 1.0e-3")
    run = other.doit("build", "target=x86_64")
    assert run.code == 1
    assert run.done[f"check:{MODEL}@x86_64"] == "FAILED"
    assert "golden" in run.err
