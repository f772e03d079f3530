"""Test that a test that passed runs again only if something that it reads changed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import outcomes
from tests import source_tree as tree
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
from helper import read

@pytest.mark.reads("data/{name}.txt")
@pytest.mark.parametrize("name", ["one", "two"])
def test_number(name):
    assert read(f"data/{name}.txt") != "wrong"

@pytest.mark.reads()
def test_other():
    read("data/one.txt")

@pytest.fixture(scope="module")
def shared():
    with open("../log", "a") as log:
        log.write("set up;")
    return read("data/two.txt")

@pytest.mark.reads("data/two.txt")
def test_shared_named(shared):
    assert shared == "two"

@pytest.mark.reads()
def test_shared_unnamed(shared):
    assert shared == "two"
"""
HELPER = """
from pathlib import Path

def read(name):
    return Path(name).read_text()
"""
DOCUMENTED = HELPER.replace(
    "    return", "    'Return the text.'  # all of it\n    return"
)
AT_IMPORT = """
import pytest
from pathlib import Path
TEXT = Path("data/one.txt").read_text()

@pytest.mark.reads()
def test_imported():
    assert TEXT == "one"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of tests that say what they read, and of some that do not."""
    folder = tmp_path / "project"
    tests, data = folder / "tests", folder / "data"
    tests.mkdir(parents=True)
    data.mkdir()
    text = CONFTEST.format(root=str(ROOT), folder=str(folder))
    (tests / "conftest.py").write_text(text)
    (tests / "test_data.py").write_text(TEST)
    (tests / "test_import.py").write_text(AT_IMPORT)
    (folder / "helper.py").write_text(HELPER)
    for name in ("one", "two"):
        (data / f"{name}.txt").write_text(name)
    return folder


def output(folder: Path, name: str = "number") -> str:
    """Return what pytest prints; the store of its run is next to the folder."""
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


def test_a_passed_test_is_repeated_only_after_a_change(folder: Path) -> None:
    first, again = output(folder), output(folder)
    assert "2 passed" in first, first
    assert "passed before" not in first
    assert "2 of them passed before" in again
    (folder / "data/two.txt").write_text("another")
    assert "1 of them passed before" in output(folder)
    # Comments and docstrings are not what runs.
    (folder / "helper.py").write_text(DOCUMENTED)
    assert "1 of them passed before" in output(folder, "one")
    for name, text in (("helper.py", HELPER), ("tests/test_data.py", TEST)):
        (folder / name).write_text(f"{text}\nMORE = 1\n")
        assert "passed before" not in output(folder, "one")


def test_a_passed_test_sets_up_no_fixture(folder: Path) -> None:
    assert "passed before" not in output(folder, "shared_named")
    assert "1 of them passed before" in output(folder, "shared_named")
    assert (folder.parent / "log").read_text() == "set up;"


def test_a_failure_is_never_remembered(folder: Path) -> None:
    (folder / "data/two.txt").write_text("wrong")
    for _ in range(2):
        assert "1 failed, 1 passed" in output(folder)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("other", "data/one.txt"),
        # Of its fixture, which another test of the file has set up.
        ("shared", "data/two.txt"),
        ("imported", "data/one.txt"),
    ],
)
def test_a_file_that_the_marker_does_not_name_fails_the_test(
    folder: Path, name: str, file: str
) -> None:
    told = output(folder, name)
    assert f"its marker `reads` does not name {file}" in told
    assert "1 failed" in told


def test_nothing_reads_a_docstring() -> None:
    readers = [
        name
        for name in tree.python_files("ingot", "oracles", "tests", "dodo.py")
        if name not in ("tests/outcomes.py", "tests/test_outcomes.py")
        if re.search(r"__doc__|get_?doc\b|getsource", tree.text(name))
    ]
    assert readers == []


def test_a_stage_names_its_program_where_the_key_of_a_test_looks_for_it() -> None:
    for name in tree.python_files("ingot"):
        calls = re.findall(r"[^f] program_argv\(|=program_argv\(", tree.text(name))
        assert len(calls) == len(outcomes.programs(name)), name
