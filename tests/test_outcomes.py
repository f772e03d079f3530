"""Tests that passed are not repeated until something that they read changes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

CONFTEST = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
import pytest
from tests import outcomes, source_tree
outcomes.ROOT = source_tree.ROOT = Path({folder!r})
from tests.conftest import *
"""
TEST = """
import pytest
from pathlib import Path

@pytest.mark.reads("data/{name}.txt")
@pytest.mark.parametrize("name", ["one", "two"])
def test_number(name):
    assert Path(f"data/{name}.txt").read_text() != "wrong"

@pytest.mark.reads()
def test_other():
    Path("data/one.txt").read_text()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of two tests that say what they read, and one that does not."""
    folder = tmp_path / "project"
    tests, data = folder / "tests", folder / "data"
    tests.mkdir(parents=True)
    data.mkdir()
    text = CONFTEST.format(root=str(ROOT), folder=str(folder))
    (tests / "conftest.py").write_text(text)
    (tests / "test_data.py").write_text(TEST)
    for name in ("one", "two"):
        (data / f"{name}.txt").write_text(name)
    return folder


def output(folder: Path, name: str = "number") -> str:
    """Return what pytest prints; the store of its run is beside the folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [
            *command,
            "-W",
            "ignore",
            "-c",
            "/dev/null",
            "--rootdir=.",
            "tests",
            "-k",
            name,
        ],
        cwd=folder,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "INGOT_TEST_STORE": str(folder.parent / "store"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout[-3000:] + done.stderr[-3000:]


def test_what_passed_is_repeated_only_after_a_change(folder: Path) -> None:
    first, again = output(folder), output(folder)
    assert "2 passed" in first, first
    assert "passed before" not in first
    assert "2 of them passed before" in again
    (folder / "data/two.txt").write_text("another")
    assert "1 of them passed before" in output(folder)
    # Another test file: another key for all of its tests.
    (folder / "tests/test_data.py").write_text(f"{TEST}\nMORE = 1\n")
    assert "passed before" not in output(folder)


def test_a_failure_is_never_remembered(folder: Path) -> None:
    (folder / "data/two.txt").write_text("wrong")
    for _ in range(2):
        assert "1 failed, 1 passed" in output(folder)


def test_a_file_that_the_marker_does_not_name_fails_the_test(folder: Path) -> None:
    told = output(folder, "other")
    assert "its marker `reads` does not name data/one.txt" in told
