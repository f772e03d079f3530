"""Measure how long `doit` takes with nothing to do, compared with a bare doit graph.

    python benchmarks/noop.py [--runs 9] [--target all]

It first builds the catalogue if necessary (minutes when cold). Every figure is the
median wall time of a whole process; the commands take turns in one run, so that the
ratios hold on a noisy machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The same number of tasks, each with an input file, an output file and a predecessor.
BARE = """
from pathlib import Path

def write(name):
    Path(name).write_text("x")

def task_step():
    for i in range({n}):
        yield {{
            "name": str(i),
            "actions": [(write, [f"out{{i}}"])],
            "file_dep": ["in" if i == 0 else f"out{{i - 1}}"],
            "targets": [f"out{{i}}"],
        }}
"""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--target", default="all")
    arguments = parser.parse_args()
    runs, target = arguments.runs, f"target={arguments.target}"
    doit = [sys.executable, "-m", "doit"]
    build = [*doit, "build", "model=all", target]
    subprocess.run(build, cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as bare:
        n_tasks = count_tasks()
        Path(bare, "dodo.py").write_text(BARE.format(n=n_tasks), encoding="utf-8")
        Path(bare, "in").write_text("x", encoding="utf-8")
        subprocess.run(doit, cwd=bare, check=True, stdout=subprocess.DEVNULL)
        commands = {
            f"doit build model=all {target}": (build, ROOT),
            f"bare doit, {n_tasks} tasks": (doit, Path(bare)),
            "doit list": ([*doit, "list"], ROOT),
            "python -c pass": ([sys.executable, "-c", "pass"], ROOT),
        }
        times = measure(commands, runs)
    base = statistics.median(times[f"bare doit, {n_tasks} tasks"])
    print(f"{'command':36} {'median s':>9} {'min':>7} {'max':>7} {'of bare':>8}")
    for name, values in times.items():
        median = statistics.median(values)
        print(
            f"{name:36} {median:9.3f} {min(values):7.3f} {max(values):7.3f}"
            f" {median / base:8.2f}"
        )
    return 0


def measure(
    commands: dict[str, tuple[list[str], Path]], runs: int
) -> dict[str, list[float]]:
    """Return the wall seconds of each command, run in turn after one warm-up."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, (argv, folder) in commands.items():
            start = time.perf_counter()
            subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            if turn:
                times[name].append(time.perf_counter() - start)
    return times


def count_tasks() -> int:
    """Return how many actions the catalogue has."""
    sys.path.insert(0, str(ROOT))
    from ingot.project.catalogue import read

    return len(read(ROOT).plan.actions)


if __name__ == "__main__":
    sys.exit(main())
