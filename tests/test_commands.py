"""doit's commands, without a build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doit import doit_cmd
from doit.cmd_run import Run as DoitRun
from doit.exceptions import InvalidCommand

import ingot.engine.remote.local_cluster
import ingot.project.catalogue
import ingot.project.selection
from ingot.cli import cache_options, commands
from ingot.cli.cluster_command import Cluster
from ingot.cli.report_commands import Graph
from ingot.cli.tasks import n_parallel
from ingot.engine import process
from ingot.errors import did_you_mean
from ingot.project.catalogue import Catalogue, Plan, Selection
from ingot.project.catalogue_values import Settings
from tests.project import Project

NONE = Settings((), {}, {}, {}, "", "", ("", ""))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A checkout in which nothing is built."""
    folder = tmp_path_factory.mktemp("commands")
    return Project.create(folder / "checkout", folder / "cache")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        (
            "check:*@nope",
            "a task is STAGE:MODEL@TARGET, or a pattern: 'check:*@x86_64'",
        ),
        ("chekc:*", "did you mean 'check'?"),
        ("lst", "did you mean 'list'?"),
    ],
)
def test_what_names_no_task_is_refused(project: Project, word: str, hint: str) -> None:
    ran = project.doit(word)
    assert ran.code == 3
    assert f"ERROR: no task named '{word}'\n  {hint}" in ran.err


@pytest.mark.parametrize("how", [("-n", "0"), ("-n", "1"), ("--always-execute",)])
def test_doit_runs_actions_in_its_own_ways_too(
    project: Project, how: tuple[str, ...]
) -> None:
    ran = project.doit(*how, "specialize:mean_pool*")
    assert ran.code == 0, ran.err
    assert "1 of 1 actions" in ran.out


def test_output_that_cannot_be_written_is_no_defect(project: Project) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "doit", "list"],
            cwd=project.root,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ran.stderr.startswith("cannot write: No space left on device; make room")
    assert "Traceback" not in ran.stderr


def test_another_folder_than_the_checkout_is_refused(project: Project) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "doit", "-f", "../dodo.py", "list"],
        cwd=project.root / "models",
        stderr=subprocess.PIPE,
        text=True,
    )
    assert ran.returncode == 3
    assert ran.stderr == (
        f"ERROR: run doit in the checkout's folder\n  cd {project.root}\n"
    )


def test_of_many_words_the_nearest_are_told() -> None:
    words = [f"word-{place}" for place in range(100)]
    assert did_you_mean("other", words[:3], "words") == (
        "known words: word-0, word-1, word-2"
    )
    hint = did_you_mean("other", words, "words")
    assert hint.startswith("the nearest of 100 words: word-")
    assert hint.count(",") == 4


def defective(*_: Any) -> int:
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(
    "run",
    [
        lambda: commands.guarded(defective),
        lambda: object.__new__(commands.Run)._build({}, []),
    ],
    ids=["command", "build"],
)
def test_a_defect_has_its_own_exit_code_and_a_traceback(
    run: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(DoitRun, "execute", defective)
    # A build that ends so stops all commands; tests after this one start some.
    monkeypatch.setattr(process, "_stopped", False)
    assert run() == 2
    assert "ZeroDivisionError: a defect" in capsys.readouterr().err


def test_the_cache_of_a_cluster_is_an_address_whatever_the_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[str] = []
    root = tmp_path / "50% #1?"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", {})
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(
        ingot.engine.remote.local_cluster, "serve", lambda *words: served.extend(words)
    )
    monkeypatch.delenv("INGOT_SHARED_CACHE", raising=False)
    assert object.__new__(Cluster).execute({}, []) == 0
    address = f"file://{tmp_path}/50%25%20%231%3F/build/.ingot/cluster/shared"
    assert served[-1] == address


def test_a_graph_of_nothing_is_refused_with_the_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = Selection((), (), (("x", "the processor lacks y"),))
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", {})
    monkeypatch.setattr(
        ingot.project.catalogue, "read", lambda *_: Catalogue(NONE, {}, Plan(()))
    )
    monkeypatch.setattr(ingot.project.selection, "select", lambda *_: left_out)
    with pytest.raises(InvalidCommand) as caught:
        object.__new__(Graph).execute({}, [])
    assert str(caught.value) == (
        "nothing is selected to draw\n  x is left out: the processor lacks y"
    )


def test_as_many_actions_are_under_way_as_this_process_has_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doit_cmd, "_CMDLINE_VARS", {})
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert n_parallel() == 1


def test_what_was_not_sent_when_the_wait_was_stopped_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []

    class Cache:
        def finish(self) -> None:
            raise KeyboardInterrupt

        def abandon(self) -> None:
            told.append("1 results were not sent")

    monkeypatch.setattr(cache_options, "_opened", [Cache()])
    with pytest.raises(KeyboardInterrupt):
        cache_options.finish()
    cache_options.abandon()
    assert told == ["1 results were not sent"]
