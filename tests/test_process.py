"""Test what a command sees in its sandbox, and that it dies with its build."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ingot.engine import process, sandbox
from ingot.engine.actions import Limits
from tests.dask_cluster import processes, until
from tests.source_tree import ROOT

needs_sandbox = pytest.mark.skipif(
    sandbox.kind() == "none", reason="no sandbox; run: apt-get install bubblewrap"
)

STOPPED_WHILE_IT_STARTS = """
import os, signal, subprocess
from pathlib import Path
from ingot.engine import process
from ingot.cli.build_command import stop_on_signals

stop_on_signals()
subprocess.Popen = lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
process.run(("true",), Path("."), {})
"""

STOPPED_WHILE_IT_EXITS = """
import atexit, os, signal
from types import SimpleNamespace
from ingot.cli import build_command

class Ended(build_command.Build):
    def __init__(self):
        self._call = SimpleNamespace(json=False)
        self._log = None
    def _stoppable(self):
        build_command.stop_on_signals()
        return 0

atexit.register(os.kill, os.getpid(), signal.SIGTERM)
Ended().run()
"""

# Runs a shell with a child, without a sandbox; the third word is when to stop it.
STARTS = """
import sys, threading, time
from pathlib import Path
from ingot.engine import process

mark, folder, how = sys.argv[1:]
if how:
    threading.Timer(float(how), process.stop_all).start()
words = ("sh", "-c", f"sh -c ': {mark}; sleep 60' & touch started; wait; : {mark}")
env = {"PATH": "/usr/bin:/bin"}
process.run(words, Path(folder), env)
"""


def starts(mark: str, folder: Path, how: str = "") -> subprocess.Popen[bytes]:
    words = [sys.executable, "-c", STARTS, mark, str(folder), how]
    return subprocess.Popen(words, cwd=ROOT, stderr=subprocess.DEVNULL)


def sandboxed(
    folder: Path, *argv: str, bind_mounts: tuple[str, ...] = ()
) -> process.Completed:
    env = {"PATH": "/usr/bin:/bin"}
    *words, end = sandbox.bubblewrap(folder, env, {}, (), network=False)
    return process.run((*words, *bind_mounts, end, *argv), folder, {}, Limits())


@pytest.fixture
def below_tmp(tmp_path: Path) -> Path:
    if not tmp_path.is_relative_to("/tmp"):
        pytest.skip(f"the tests' folder {tmp_path} is not below /tmp")
    return tmp_path


@needs_sandbox
def test_a_mount_below_tmp_is_visible_and_read_only(below_tmp: Path) -> None:
    prefix, folder = below_tmp / "venv", below_tmp / "scratch"
    prefix.mkdir()
    folder.mkdir()
    (prefix / "tool").write_text("#!/bin/sh\necho runs\n")
    (prefix / "tool").chmod(0o755)
    mounts = ("--ro-bind", str(prefix), str(prefix))
    tool = str(prefix / "tool")
    assert sandboxed(folder, tool, bind_mounts=mounts) == process.Completed(
        0, b"runs\n"
    )
    done = sandboxed(folder, "touch", str(prefix / "new"), bind_mounts=mounts)
    assert done.exit_code == 1


@needs_sandbox
def test_the_rest_of_tmp_is_hidden(below_tmp: Path) -> None:
    (below_tmp / "secret").touch()
    folder = below_tmp / "scratch"
    folder.mkdir()
    assert sandboxed(folder, "test", "-e", str(below_tmp / "secret")).exit_code == 1


@needs_sandbox
def test_a_sandboxed_command_has_only_its_own_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INGOT_SHARED_CACHE_TOKEN", "s3cret")
    own = b"PATH=/usr/bin:/bin\nPWD=/tmp/ingot\n"
    # `sh` would add variables of its own.
    assert sandboxed(tmp_path, "env") == process.Completed(0, own)
    # The sandbox's first process is bubblewrap itself.
    assert sandboxed(tmp_path, "cat", "/proc/1/environ") == process.Completed(0, b"")


@needs_sandbox
def test_the_trial_of_the_sandbox_has_no_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: started.append(env))
    sandbox.probe.__wrapped__()
    assert started == [{}]


def test_sigterm_while_a_command_starts_ends_the_build() -> None:
    words = [sys.executable, "-c", STOPPED_WHILE_IT_STARTS]
    done = subprocess.run(words, timeout=60, check=False)
    assert done.returncode == 143


def test_sigterm_while_a_build_exits_prints_nothing() -> None:
    words = [sys.executable, "-c", STOPPED_WHILE_IT_EXITS]
    done = subprocess.run(words, timeout=60, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, b"")


def test_a_command_without_a_sandbox_dies_with_its_build(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-killed"
    with starts(mark, tmp_path) as starter:
        until((tmp_path / "started").exists)
        assert len(processes(mark)) == 3
        starter.kill()
    until(lambda: not processes(mark))


def test_a_command_without_a_sandbox_is_stopped_with_its_children(
    tmp_path: Path,
) -> None:
    mark = f"mark-{os.getpid()}-stopped"
    with starts(mark, tmp_path, "1") as starter:
        assert starter.wait(30) == -signal.SIGINT
    assert (tmp_path / "started").exists()
    until(lambda: not processes(mark))


def test_a_keeper_that_was_killed_is_replaced(tmp_path: Path) -> None:
    env = {"PATH": "/usr/bin:/bin"}
    groups = []
    for _ in range(2):
        words = ("sh", "-c", "read -r _ _ _ _ group _ < /proc/$$/stat; echo $group")
        done = process.run(words, tmp_path, env)
        groups.append(int(done.output))
        os.killpg(groups[-1], signal.SIGKILL)
        until(lambda: Path(f"/proc/{groups[-1]}/stat").read_text().split()[2] == "Z")
    assert groups[0] != groups[1]
