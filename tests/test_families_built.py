"""Test that families are imported, judged and built on every target.

Each has its real widths and heads, one layer of each kind, and a vocabulary of 1,024;
transformers makes the checkpoint from a config and a seed, and the golden outputs. To
run one family on one target:

    pytest -n0 -m nightly tests/test_families_built.py -k "olmo3 and x86_64"
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.family_checkpoints import TRUE_WIDTHS, write_true_widths
from tests.import_cases import CARD
from tests.project import ROOT, Project

TARGETS = [
    pytest.param("x86_64"),
    pytest.param("aarch64", marks=pytest.mark.aarch64),
    pytest.param("vulkan-llvmpipe", marks=pytest.mark.vulkan),
]
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("transformers") is None,
        reason="transformers is not installed; pip install 'ingot-build[golden]'",
    ),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout with all components, whose models are imported."""
    root = tmp_path_factory.mktemp("families") / "checkout"
    made = Project.create(root)
    shutil.copytree(ROOT / "components", root / "components", dirs_exist_ok=True)
    return made


def imported(project: Project, name: str) -> None:
    """Import a checkpoint of true widths, once for all targets."""
    if (project.root / f"models/{name}.yaml").exists():
        return
    source = write_true_widths(project.root / "checkpoints" / name, name)
    (source / "README.md").write_text(CARD)
    run = project.doit("import", f"source={source}", f"model={name}", "n_ctx=640")
    assert run.code == 0, run.err


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The comparisons of a check."""
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return rows


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", TRUE_WIDTHS)
def test_a_family_of_true_widths_says_what_transformers_says(
    name: str, target: str, project: Project
) -> None:
    imported(project, name)
    run = project.doit("check", f"model={name}", f"target={target}")
    assert run.code == 0, run.out + run.err
    rows = rows_of(project.root / "build" / name / target / "check.json")
    assert all(row["passed"] for row in rows)
    golden = [row for row in rows if row["level"] == "golden"]
    assert {row["entry_point"] for row in golden} == {"prefill", "decode"}
