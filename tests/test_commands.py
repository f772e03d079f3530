"""Test doit's commands without a build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import ingot.engine.remote.local_cluster
import ingot.project.catalogue
import ingot.project.selection
from ingot.cli import build_command, list_commands
from ingot.cli.build_command import n_parallel
from ingot.cli.commands import COMMANDS, INTERRUPTED, Command
from ingot.cli.doit_commands import command_class
from ingot.cli.tasks import choose_actions
from ingot.engine import process
from ingot.engine.actions import Action, Output
from ingot.errors import IngotError, did_you_mean
from ingot.project.catalogue import Catalogue, Plan, Selection
from ingot.project.catalogue_values import Settings
from tests.command_calls import call, run
from tests.project import ROOT, Project, edit

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
def test_a_word_that_names_no_task_is_rejected(
    project: Project, word: str, hint: str
) -> None:
    ran = project.doit(word)
    assert ran.code == 3
    assert f"ERROR: no task named '{word}'\n  {hint}" in ran.err


@pytest.mark.parametrize("how", [("-n", "0"), ("-n", "1"), ("--always-execute",)])
def test_the_options_of_a_build_change_how_it_runs(
    project: Project, how: tuple[str, ...]
) -> None:
    ran = project.doit(*how, "specialize:mean_pool*")
    assert ran.code == 0, ran.err
    assert "1 of 1 action:" in ran.out


def test_output_that_cannot_be_written_is_reported_without_a_traceback(
    project: Project,
) -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "doit", "list"],
            cwd=project.root,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ran.stderr.startswith("cannot write output: No space left on device; free")
    assert "Traceback" not in ran.stderr


def test_another_folder_than_the_checkout_is_rejected(project: Project) -> None:
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


def test_the_nearest_of_many_words_are_suggested() -> None:
    words = [f"word-{place}" for place in range(100)]
    assert did_you_mean("other", words[:3], "words") == (
        "known words: word-0, word-1, word-2"
    )
    hint = did_you_mean("other", words, "words")
    assert hint.startswith("the nearest of 100 words: word-")
    assert hint.count(",") == 4


def test_a_task_of_the_users_own_runs_with_what_it_needs(project: Project) -> None:
    dodo = project.root / "dodo.py"
    before = dodo.read_text("utf-8")
    own = "\n\ndef task_own():\n"
    own += '    return {"actions": ["echo own > own.txt", "false"],'
    own += ' "task_dep": ["specialize:mean_pool__n_embd_32"]}\n'
    dodo.write_text(before + own)
    ran = project.doit("own")
    assert ran.code == 1
    assert "own: Command failed: 'false' returned 1" in ran.err
    assert (project.root / "own.txt").read_text() == "own\n"
    edit(dodo, ', "false"', "")
    ran = project.doit("own")
    assert (ran.code, ran.err) == (0, "")
    assert "2 of 2 actions: 1 ran, 1 up to date" in ran.out
    dodo.write_text(before)


def test_a_single_task_runs_without_what_it_needs(project: Project) -> None:
    ran = project.doit("-s", "link:toy@packed_n8")
    assert ran.code == 1
    assert "specialize:" in ran.err
    assert "1 of 1 action: 1 failed" in ran.out


def defective(*_: Any) -> int:
    raise ZeroDivisionError("a defect")


@pytest.mark.parametrize(
    ("name", "function"), [("list", "list_catalogue"), ("run", "load")]
)
def test_an_internal_error_has_its_own_exit_code_and_a_traceback(
    name: str,
    function: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        list_commands if name == "list" else build_command, function, defective
    )
    # A build that ends so stops all commands; tests after this one start some.
    monkeypatch.setattr(process, "_stopped", False)
    assert command_class(name)().parse_execute([]) == 2
    assert "ZeroDivisionError: a defect" in capsys.readouterr().err


def test_ctrl_c_stops_any_command_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(list_commands, "list_catalogue", interrupted)
    monkeypatch.setattr(process, "_stopped", False)
    assert command_class("list")().parse_execute([]) == INTERRUPTED
    assert capsys.readouterr().err == "\nstopped\n"


def test_the_cache_of_a_cluster_is_an_address_whatever_the_folder_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[str] = []
    root = tmp_path / "50% #1?"
    root.mkdir()
    monkeypatch.chdir(root)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(
        ingot.engine.remote.local_cluster, "serve", lambda *words: served.extend(words)
    )
    monkeypatch.delenv("INGOT_SHARED_CACHE", raising=False)
    assert run("cluster") == 0
    address = f"file://{tmp_path}/50%25%20%231%3F/build/.ingot/cluster/shared"
    assert served[-1] == address


def test_a_graph_of_nothing_is_an_error_with_the_reasons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out = Selection((), (), (("x", "the processor lacks y"),))
    monkeypatch.setattr(
        ingot.project.catalogue, "read", lambda *_: Catalogue(NONE, {}, Plan(()))
    )
    monkeypatch.setattr(ingot.project.selection, "select", lambda *_: left_out)
    with pytest.raises(IngotError) as caught:
        run("graph")
    assert str(caught.value) == (
        "nothing is selected to draw\n  x is left out: the processor lacks y"
    )


def test_a_stage_means_its_selected_actions_and_those_that_they_need() -> None:
    def action(task: str, *needs: str) -> Action:
        inputs = tuple((name, Output(name, "out")) for name in needs)
        return Action(task, ("true",), inputs, ("out",))

    plan = Plan(
        (
            action("link:a"),
            action("compile:a@x", "link:a"),
            action("compile:a@y", "link:a"),
            action("bundle:a@x", "compile:a@x"),
        )
    )
    selection = Selection(("a",), ("x",))
    linked, compiled = {"link:a"}, {"link:a", "compile:a@x"}
    assert choose_actions(plan, selection, call("link")) == linked
    assert choose_actions(plan, selection, call("compile")) == compiled
    assert choose_actions(plan, selection, call("compile:*")) == {
        *("compile:a@x", "compile:a@y")
    }
    everything = choose_actions(plan, selection, call("build"))
    assert everything == choose_actions(plan, selection, call())
    assert everything == {*compiled, "bundle:a@x"}


def test_as_many_actions_are_under_way_as_this_process_has_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert n_parallel({}) == 1
    assert n_parallel({"executor": "dask://x:1"}) == build_command.IN_FLIGHT


def test_results_that_were_not_uploaded_when_the_wait_was_stopped_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[str] = []

    class Cache:
        def finish(self) -> None:
            raise KeyboardInterrupt

        def abandon(self) -> None:
            reported.append("1 result was not uploaded")

    checkout = SimpleNamespace(root=tmp_path, settings=NONE, models={})
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path / "store"))
    monkeypatch.setattr(build_command, "load", lambda *_: (checkout, {}))
    monkeypatch.setattr(build_command, "open_cache", lambda *_: Cache())
    monkeypatch.setattr(process, "_stopped", False)
    loader = SimpleNamespace(load_doit_config=dict)
    stopped = replace(call(), doit={"task_loader": loader})
    assert build_command.Build(stopped, ()).run() == INTERRUPTED
    assert reported == ["1 result was not uploaded"]


def test_a_build_with_nothing_to_do_imports_nothing_that_is_slow() -> None:
    program = (
        "import sys, ingot.cli.build_command, ingot.engine.action_keys;"
        "slow = {'yaml', 'rich', 'numpy', 'google', 'iree', 'urllib3', 'grpc'};"
        "print(sorted(slow & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=[c.name for c in COMMANDS])
def test_every_command_has_a_function(command: Command) -> None:
    assert callable(command.load())
