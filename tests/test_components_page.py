"""Test that the page of components agrees with the folders and the measurements."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from ingot.errors import IngotError
from ingot.report.components_page import DATA, PAGE, digest, page
from tests.component_cases import COMPONENTS, VARIANTS
from tests.project import ROOT, edit
from tests.source_tree import tracked

PARTS = ("models", "targets", "components", "oracles")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the project as far as the page reads it, without a user's own models."""
    return copy(ROOT, tmp_path, tracked("models/*.yaml"))


def copy(source: Path, tmp_path: Path, models: Collection[str]) -> Path:
    """Copy what the page reads, of the models only these."""
    for part in PARTS:
        shutil.copytree(source / part, tmp_path / part)
    for path in (tmp_path / "models").glob("*.yaml"):
        if path.relative_to(tmp_path).as_posix() not in models:
            path.unlink()
    (tmp_path / "docs").mkdir()
    for part in ("pyproject.toml", DATA):
        shutil.copy(source / part, tmp_path / part)
    return tmp_path


def entry(text: str, component: str) -> str:
    """Return what the page says of a component."""
    return text.partition(f"### {component}\n")[2].partition("\n### ")[0]


def test_the_page_is_as_the_command_writes_it(root: Path) -> None:
    written = (ROOT / PAGE).read_text("utf-8")
    assert written == page(root), "run: python -m ingot.report.components_page"


def test_a_model_of_the_users_own_is_not_on_the_page(
    root: Path, tmp_path: Path
) -> None:
    before = page(root)
    own = (root / "models/toy-moe.yaml").read_text("utf-8")
    source = "source: {kind: hf-directory, path: ../../gone}"
    text = re.sub("source: {kind: synthetic.*}", source, own.replace("toy-moe", "own"))
    assert source in text
    (root / "models/own.yaml").write_text(text, "utf-8")
    there = copy(root, tmp_path / "again", tracked("models/*.yaml"))
    with pytest.raises(ExceptionGroup, match=r"own\.yaml"):
        page(root)
    assert page(there) == before


def test_every_component_is_there_with_all_that_is_asked_of_it() -> None:
    text = (ROOT / PAGE).read_text("utf-8")
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == COMPONENTS
    for component in COMPONENTS:
        labels = re.findall(r"^- ([a-z ]+): \S", entry(text, component), re.MULTILINE)
        assert [label.removesuffix("s") for label in labels] == [
            *("argument", "result", "dim", "type"),
            *("oracle", "source", "model", "right on"),
        ]


def test_what_is_said_of_a_component_is_its_own(root: Path) -> None:
    found = entry(page(root), "linear/linear_bias")
    assert "y[b, s, o] = " in found
    assert "`x: f32[batch, seq, n_in]`" in found
    assert "- dims: *batch*, *seq*, n_in, n_out\n" in found
    assert "- oracle: [linear_bias](../oracles/linear.py)\n" in found
    assert "all-minilm-l6-v2" in found
    assert "gemma3-270m" in entry(page(root), "linear/linear_packed")


def test_a_changed_component_is_right_nowhere_until_it_is_measured(root: Path) -> None:
    before = entry(page(root), "elementwise/add")
    assert re.search(r"- right on: .*x86_64 \(", before)
    path = root / "components/elementwise/add.mlir"
    edit(path, "%sum = arith.addf", "// Why.\n    %sum = arith.addf")
    assert entry(page(root), "elementwise/add") == before
    edit(path, "arith.addf %a, %b", "arith.subf %a, %b")
    assert "- right on: not measured\n" in entry(page(root), "elementwise/add")


def test_a_target_that_was_wrong_is_not_named(root: Path) -> None:
    data = json.loads((root / DATA).read_text("utf-8"))
    data["measured"]["elementwise/add"]["x86_64"]["error"] = None
    (root / DATA).write_text(json.dumps(data), "utf-8")
    assert "x86_64" not in entry(page(root), "elementwise/add")


def test_what_was_measured_is_within_the_tolerance() -> None:
    data = json.loads((ROOT / DATA).read_text("utf-8"))
    errors = [
        (component, target, row["error"])
        for component, row in data["measured"].items()
        for target, row in row.items()
        if row["component"] == digest(ROOT, component)
    ]
    assert len(errors) > 300
    assert {component for component, *_ in errors} <= set(VARIANTS)
    assert [item for item in errors if item[2] is None] == []
    assert all(error < data["tolerance"] for *_, error in errors)


def test_a_manifest_that_cannot_be_read_is_named(root: Path) -> None:
    edit(root / "models/clm-60m.yaml", "architecture: llama", "architecture: lama")
    with pytest.raises(ExceptionGroup, match=r"models/clm-60m\.yaml: 1 error"):
        page(root)


def test_all_targets_that_cannot_be_read_are_told_at_once(root: Path) -> None:
    for name in ("vulkan", "vulkan-llvmpipe"):
        edit(root / f"targets/{name}.yaml", "summary", "sumary")
    with pytest.raises(IngotError) as caught:
        page(root)
    told = ":1: sumary: unknown key\n  did you mean 'summary'?"
    assert str(caught.value) == (
        f"targets/vulkan-llvmpipe.yaml:4{told}\ntargets/vulkan.yaml:5{told}"
    )
