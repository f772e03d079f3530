"""Test that the benchmarks run; nothing tests their figures."""

from __future__ import annotations

import json
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


# Two turns in which ingot takes half of the memory's bandwidth; the slower peer in its
# first turn is the faster one by the median.
TABLE = """
from pathlib import Path
import sys
from limits import Limit
from speed_table import *
def engine(name, bytes_, *speeds):
    same = Agreement(4, 4, 1.0)
    turns = tuple({"prefill 8": 2 * x, "decode 8": x} for x in speeds)
    return Measured(name, bytes_, same, turns)
limits = {"memory": Limit(50, "GB/s"), "f32 ymm": Limit(100, "GFLOP/s")}
engines = (engine("ingot f32", 10**9, 20, 30), engine("near f32", 0, 40, 20),
           engine("far f32", 0, 10, 10))
width = Width("f32", engines, (limits, limits), {"gone f32": "no compiler"})
machine = {"cpu": "a processor", "cores": "2", "memory": "8 GiB"}
report = Report("toy", "2026-01-02", machine, "native", 2, 4, 0.0, 10**9, (width,))
print(text(report))
write(Path(sys.argv[1]), report)
"""


def test_a_table_of_speeds_names_the_fastest_other_engine_and_the_limit(
    tmp_path: Path,
) -> None:
    page = tmp_path / "page.md"
    begin, end = (
        f"<!-- benchmarks/generate.py --write: {word}, native -->"
        for word in ("begin", "end")
    )
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    told = printed("-c", TABLE, str(page)).splitlines()
    # Turns: 20 / 40 and 30 / 20.
    (ratio,) = (line for line in told if "fastest other" in line)
    assert ratio.split("other")[1].split() == ["1.00", "near", "f32"] * 2
    (share,) = (line for line in told if "of the limit" in line)
    # 50 tokens/s of 2 Gflop each; 25 GB/s.
    assert share.split("limit")[1].split() == ["100%", "f32", "ymm", "50%", "memory"]
    assert told[-1] == "not measured: gone f32: no compiler"
    text = page.read_text()
    assert text.startswith(f"before\n{begin}\n\ntoy on a processor, 2 cores, 8 GiB")
    assert text.endswith(f"{end}\nafter\n")
    assert "old" not in text
    assert "| near f32 | 60.0 | 30.0 | 4/4, r = 1.000 |" in text


def test_an_engine_that_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    arguments = {"model": "/none", "threads": 1, "positions": 8, "options": {}}
    program = f"""
from pathlib import Path
import sys
from engine_process import EngineProcess
from engines.peer import CannotBuild
try:
    EngineProcess(Path(sys.executable), "no_engine", {json.dumps(arguments)}, {{}},
                  Path(sys.argv[1]))
except CannotBuild as error:
    print(error)
"""
    log = tmp_path / "log"
    assert printed("-c", program, str(log)) == (
        f"ModuleNotFoundError: No module named 'engines.no_engine' ({log})\n"
    )
