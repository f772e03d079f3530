"""Test that the benchmarks run; nothing tests their figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.project import ROOT

SMALL = "import noop_tools as it; it.LAYERS = it.WIDTH = 2; it.main()"
# How a build would confine its commands, with the environment that it gets.
HOW = """
import os, pathlib, sys
import sharing
os.environ.update(sharing.environment(pathlib.Path(sys.argv[1]), "", confined=False))
from ingot.cli import startup
startup.prepare()
from ingot.engine import sandbox
print(sandbox.kind())
"""
SCALE = "import scale as it; it.SLOTS = (2,); it.main()"


def printed(*words: str) -> str:
    """Return what a benchmark says; it must end well."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT / "benchmarks",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_small_actions_are_timed_every_way_of_one_machine() -> None:
    table = printed("sharing.py", "--actions", "4", "--only", "local")
    ways = ["commands alone, sandbox", "commands alone, no sandbox", "cold"]
    ways += ["cold, no sandbox", "no-op", "restored from the store"]
    assert [line[:34].strip() for line in table.splitlines()[3:]] == ways


def test_a_build_that_is_to_have_no_sandbox_has_none(tmp_path: Path) -> None:
    assert printed("-c", HOW, str(tmp_path)) == "none\n"


def test_a_build_with_nothing_to_do_is_timed_beside_other_tools() -> None:
    table = printed("-c", SMALL, "--only", "ingot", "--runs", "1")
    assert table.splitlines()[-1].split()[0] == "ingot"


def test_a_scheduler_is_measured_with_a_stub() -> None:
    table = printed("-c", SCALE, "--actions", "4")
    slots, actions, per_s = table.splitlines()[1].split()[:3]
    assert (slots, actions) == ("2", "4")
    assert 0 < float(per_s) <= 2 / 0.25
