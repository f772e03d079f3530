"""Test output to closed readers, closed streams and terminals without a character."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.project import ROOT, Project

SPECIALIZE = ("-a", "specialize:mean_pool*")
STOPPED = "stopped, because the reader closed the output; finished actions are cached\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout in which nothing is built."""
    folder = tmp_path_factory.mktemp("streams")
    return Project.create(folder / "checkout", folder / "cache")


def doit(
    project: Project, *words: str, out: int, before: Callable[[], None] | None = None
) -> tuple[int, str]:
    """The exit code of a command, and what it wrote to standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "doit", *words],
        cwd=project.root,
        env={**os.environ, "INGOT_CACHE": str(project.cache)},
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("list",), ""),
        (("info", "build"), ""),
        (("help",), ""),
        (SPECIALIZE, STOPPED),
    ],
    ids=["own", "info", "help", "build"],
)
def test_a_reader_that_closes_the_output_causes_no_traceback(
    project: Project, words: tuple[str, ...], said: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert doit(project, *words, out=writer) == (141, said)
    finally:
        os.close(writer)


def test_output_to_a_closed_stream_is_not_written_into_a_file(project: Project) -> None:
    def close() -> None:
        os.close(0)
        os.close(1)

    words = ("-n", "1", *SPECIALIZE)
    assert doit(project, *words, out=subprocess.DEVNULL, before=close) == (0, "")
    run = project.doit("why", SPECIALIZE[1])
    assert run.out == "nothing would run: 1 action is up to date\n"


def test_a_character_that_a_terminal_lacks_becomes_a_question_mark() -> None:
    program = "from ingot.cli import startup; startup.prepare(); print('error ≤ 1')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"error ? 1\n"
