"""The decoders at full size against transformers, and cut down on emulated targets.

Full size takes an emulated processor a quarter of an hour a model: here it gets the
real widths with few layers and a small vocabulary. With INGOT_FULL=1 all decoders are
checked at full size on all targets, which takes hours.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ingot.catalogue import read
from tests.project import ROOT, Project, edit

CATALOGUE = read(ROOT)
FULL = bool(os.environ.get("INGOT_FULL"))
EMULATED = [
    pytest.param("aarch64", marks=[pytest.mark.slow, pytest.mark.aarch64]),
    pytest.param("vulkan-llvmpipe", marks=[pytest.mark.slow, pytest.mark.vulkan]),
]
MODELS: tuple[str, ...] = ("gemma3-270m",)
TARGETS = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in ("x86_64", "x86_64-v4")
    if name not in CATALOGUE.unrunnable
]
if FULL:
    MODELS = tuple(name for name in CATALOGUE.models if name != "all-minilm-l6-v2")
    TARGETS += EMULATED


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout with the shipped models; nothing is built yet."""
    base = tmp_path_factory.mktemp("decoders")
    return Project.create(base / "checkout", base / "cache", toy=False)


def report(project: Project, model: str, target: str) -> list[dict[str, Any]]:
    path = project.root / "build" / model / target / "check.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return rows


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("model", MODELS)
def test_a_decoder_says_what_transformers_says(
    project: Project, model: str, target: str
) -> None:
    run = project.doit("check", f"model={model}", f"target={target}")
    assert run.code == 0, run.err
    rows = report(project, model, target)
    assert {row["level"] for row in rows} == {
        "component",
        "block",
        "propagated",
        "model",
        "golden",
        "tokens",
    }
    assert all(row["passed"] for row in rows)
    golden = [row for row in rows if row["level"] == "golden"]
    lengths = {row["inputs"].get("seq", 0) for row in golden}
    if target.startswith("x86_64"):
        # Beyond the window of 512 positions.
        assert max(lengths) >= (640 if model == "gemma3-270m" else 300)
        assert {row["inputs"].get("batch") for row in golden} >= {1, 4}
    assert {row["entry_point"] for row in golden} == {"prefill", "decode"}


@pytest.mark.parametrize("target", EMULATED)
def test_a_decoder_of_few_layers_is_right_at_its_real_widths(
    project: Project, tmp_path: Path, target: str
) -> None:
    small = Project.create(tmp_path / "checkout", project.cache, toy=False)
    manifest = small.root / "models/gemma3-270m.yaml"
    edit(manifest, "n_layer: 18", "n_layer: 6")
    edit(manifest, "n_vocab: 262144", "n_vocab: 4096")
    text = manifest.read_text().replace("golden: golden/gemma3-270m.npz", "")
    manifest.write_text(text.replace("check:\n  \n", "").replace("check: {}\n", ""))
    run = small.doit("check", "model=gemma3-270m", f"target={target}")
    assert run.code == 0, run.err
    rows = report(small, "gemma3-270m", target)
    assert {row["entry_point"] for row in rows} == {"prefill", "decode"}
    assert all(row["passed"] for row in rows)
