"""Test what earlier versions wrote: it is read, migrated, or refused with a way on.

Each archive in tests/data/earlier holds, as of its day, the store and the records of a
checkout with two specialised components, and a whole bundle. docs/stability.md tells
how to add one.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from ingot.bundles.verify import verify
from tests.project import Project
from tests.source_tree import ROOT

SAMPLES = sorted((ROOT / "tests/data/earlier").glob("*.tar.xz"))
TASKS = ("specialize:mean_pool*", "specialize:l2_normalize*")


@pytest.fixture(params=SAMPLES, ids=lambda path: path.name.partition(".")[0])
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The unpacked files of an earlier version."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path / "sample", filter="data")
    return tmp_path / "sample"


def outputs(project: Project) -> dict[str, bytes]:
    """The specialised modules of a checkout, by path."""
    return {
        str(path.relative_to(project.root)): path.read_bytes()
        for path in sorted(project.root.glob("build/**/*.mlir"))
    }


def test_an_earlier_store_and_records_give_todays_results(
    sample: Path, tmp_path: Path
) -> None:
    new = Project.create(tmp_path / "new", tmp_path / "empty")
    assert new.doit(*TASKS).code == 0
    expected = outputs(new)
    assert len(expected) == len(TASKS)

    project = Project.create(tmp_path / "old", sample / "cache")
    shutil.copytree(sample / "build", project.root / "build")
    for command in (TASKS, ("why", *TASKS), ("store",), ("store", "verify")):
        ran = project.doit(*command)
        assert (ran.code, ran.err) == (0, ""), command
    assert outputs(project) == expected
    assert project.doit("report").code == 0


def test_an_earlier_bundle_is_verified(sample: Path) -> None:
    """Its module is of the pinned runtime; an archive that outlives a pin says so."""
    report = verify(sample / "bundle")
    assert "complete: 7 files as packed" in report.text
    assert "correct: 3 sentences of the golden file" in report.text
    assert report.gap == ""
