"""Measure what an action costs besides its command: alone, from caches, on workers.

    python benchmarks/sharing.py                    1,000 small actions, every way
    python benchmarks/sharing.py --actions 10000 --only dask

Each row is one `doit` process on a checkout whose actions run `sh`, in the sandbox
unless the row says otherwise; the difference is the cost of the sandbox. The commands
alone, without a graph or a store, are the minimum for any build on this machine. "HTTP"
is a second machine with an empty store; "Dask" is two workers, one of which is killed
during the build. HTTP needs nginx. All folders are below TMPDIR: on a disk that is slow
to create files, such as ext4 without a journal after many were removed, all rows are
slower.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nginx import NGINX, nginx

from ingot.engine import process, sandbox
from ingot.engine.actions import Limits

ROOT = Path(__file__).resolve().parent.parent

# For rows that take about a second, the best of this many is reported.
N_TRIES = 3

# Seconds for 1,000 actions of a prototype of 123 lines, on another, quiet machine.
PROTOTYPE_S = {
    "cold": 4.8,
    "cold, no sandbox": 2.7,
    "no-op": 0.20,
    "restored from the store": 0.78,
    "fetched over HTTP": 1.5,
    "Dask, a worker killed, no sandbox": 9.5,
}

DODO = """
from pathlib import Path

from ingot.project.catalogue_values import Settings
from ingot.project.catalogue import Catalogue, Plan, Selection
from ingot.cli import tasks
from ingot.engine.actions import Action, InlineText

ACTIONS = tuple(
    Action(
        task=f"step:{{i}}",
        argv=("sh", "-c", f"cat in > out; echo {{i}} {salt} >> out"),
        inputs=(("in", InlineText("content")),),
        outputs=("out",),
        exported_to=(f"build/out{{i}}",),
    )
    for i in range({n})
)
SETTINGS = Settings(
    models=(),
    targets={{}},
    unrunnable={{}},
    aliases={{}},
    default_model="",
    default_target="",
    shared_cache=("", "read-write"),
)
CHECKOUT = tasks.Checkout(
    Path(__file__).parent,
    lambda *_: Catalogue(SETTINGS, {{}}, Plan(ACTIONS)),
    lambda *_: Selection((), ()),
)
DOIT_CONFIG = {{
    "default_tasks": [action.task for action in ACTIONS],
}}

def task_step():
    yield from map(tasks.task, ACTIONS)
"""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=1000)
    parser.add_argument("--only", choices=("local", "http", "dask"))
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    print(f"load average {load:.1f} on {cores} cores: figures of a busy machine count")
    print("only beside each other")
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        rows: dict[str, Cost] = {}
        for kind, measure in (("local", local), ("http", http), ("dask", dask)):
            if arguments.only in (None, kind):
                rows |= measure(root / kind, arguments.actions)
    print(table(rows, arguments.actions))
    return 0


@dataclass(frozen=True, order=True)
class Cost:
    """The cost of a build, without the CPU time of sandboxed commands.

    bwrap does not report that time.
    """

    wall_s: float
    cpu_s: float


@contextmanager
def timed(costs: list[Cost]) -> Iterator[None]:
    """Add the cost of the processes that end within the block."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    costs.append(Cost(time.perf_counter() - start, cpu_s))


def table(rows: dict[str, Cost], n: int) -> str:
    """Return the rows as text, with a prototype's seconds next to each."""
    lines = [
        f"{'way':34} {'s':>8} {'ms/action':>10} {'CPU ms/action':>14}"
        f" {'prototype s':>12} {'ratio':>6}"
    ]
    for way, cost in rows.items():
        line = f"{way:34} {cost.wall_s:8.2f} {cost.wall_s * 1e3 / n:10.2f}"
        line += f" {cost.cpu_s * 1e3 / n:14.2f}"
        if way in PROTOTYPE_S:
            known = PROTOTYPE_S[way] * n / 1000
            line += f" {known:12.2f} {cost.wall_s / known:6.2f}"
        lines.append(line)
    return "\n".join(lines)


def local(root: Path, n: int) -> dict[str, Cost]:
    """Return the costs of builds on one machine."""
    rows = {
        "commands alone, sandbox": alone(root / "c", n, confined=True),
        "commands alone, no sandbox": alone(root / "d", n, confined=False),
    }
    checkout = make(root / "a", n)
    rows["cold"] = build(checkout)
    rows["cold, no sandbox"] = build(make(root / "b", n), confined=False)
    rows["no-op"] = min(build(checkout) for _ in range(N_TRIES))
    rows["restored from the store"] = min(restored(checkout) for _ in range(N_TRIES))
    return rows


def restored(checkout: Path) -> Cost:
    """Return the cost of a build that has all results and exports none."""
    # Not removed, because on ext4 without a journal every new file then takes a
    # millisecond: the kernel searches for its inode among the removed ones.
    (checkout / "build").rename(checkout / f"before-{time.monotonic_ns()}")
    return build(checkout)


def alone(root: Path, n: int, confined: bool) -> Cost:
    """Return the cost of the commands, with one thread per core."""

    def run(place: int) -> None:
        folder = root / str(place)
        folder.mkdir(parents=True)
        (folder / "in").write_text("content")
        argv = ("/bin/sh", "-c", f"cat in > out; echo {place} >> out")
        words = sandbox.bubblewrap(folder, {}, {}, (), False) if confined else ()
        done = process.run((*words, *argv), folder, {}, Limits() if confined else None)
        assert done.exit_code == 0, done.output

    costs: list[Cost] = []
    with timed(costs), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(run, range(n)))
    return costs[0]


def http(root: Path, n: int) -> dict[str, Cost]:
    """Return the cost of a second machine's build, from an HTTP cache."""
    if NGINX is None:
        print("HTTP is left out: there is no nginx; run: apt-get install nginx-light")
        return {}
    first = make(root / "first", n)
    others = [make(root / f"{place}", n) for place in range(N_TRIES)]
    for other in others:
        shutil.copy(first / "dodo.py", other / "dodo.py")
    with nginx(root / "nginx") as url:
        build(first, url)
        return {"fetched over HTTP": min(build(other, url) for other in others)}


def dask(root: Path, n: int) -> dict[str, Cost]:
    """Return the cost of builds by two workers, one of which is killed."""
    way = "Dask, a worker killed"
    return {
        way: killing(make(root / "a", n), confined=True),
        f"{way}, no sandbox": killing(make(root / "b", n), confined=False),
    }


def killing(checkout: Path, confined: bool) -> Cost:
    """Return the cost of one such build."""
    with cluster(checkout, confined) as (serving, address, shared):
        words = [f"executor={address}"]
        costs: list[Cost] = []
        with (
            timed(costs),
            subprocess.Popen(
                [sys.executable, "-m", "doit", *words],
                cwd=checkout,
                env=environment(checkout, shared, confined),
                stdout=subprocess.DEVNULL,
            ) as building,
        ):
            time.sleep(3)
            os.kill(workers(serving.pid)[0], signal.SIGKILL)
            assert building.wait() == 0
        return costs[0]


def make(root: Path, n: int) -> Path:
    """Return a checkout with so many actions that have never run."""
    root.mkdir(parents=True)
    shutil.copy(ROOT / "pyproject.toml", root)
    text = DODO.format(n=n, salt=time.time_ns())
    (root / "dodo.py").write_text(text, encoding="utf-8")
    return root


def environment(checkout: Path, shared: str, confined: bool = True) -> dict[str, str]:
    """Return the environment of a build with a store next to the checkout."""
    store = str(checkout.with_name(f"{checkout.name}-store"))
    found = {**os.environ, "INGOT_CACHE": store, "INGOT_SHARED_CACHE": shared}
    found["INGOT_SHARED_CACHE_MODE"] = "read-write"
    if confined:
        return found
    # A bwrap that does not sandbox, before the system's own.
    program = checkout / "bin/bwrap"
    program.parent.mkdir(exist_ok=True)
    program.unlink(missing_ok=True)
    program.symlink_to(shutil.which("false") or "false")
    return {**found, "PATH": f"{program.parent}:{os.environ['PATH']}"}


def build(checkout: Path, shared: str = "", confined: bool = True) -> Cost:
    """Return the cost of `doit` there."""
    costs: list[Cost] = []
    with timed(costs):
        subprocess.run(
            [sys.executable, "-m", "doit"],
            cwd=checkout,
            env=environment(checkout, shared, confined),
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return costs[0]


@contextmanager
def cluster(
    checkout: Path, confined: bool
) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Yield a cluster's process, its address and its shared cache."""
    with subprocess.Popen(
        [sys.executable, "-m", "doit", "cluster", "port=0"],
        cwd=checkout,
        env=environment(checkout, "", confined),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        line = next(line for line in serving.stdout if "executor=" in line)
        shared, address = line.split()[0], line.rpartition("executor=")[2].strip()
        try:
            yield serving, address, shared.partition("=")[2]
        finally:
            serving.send_signal(signal.SIGTERM)


def workers(pid: int) -> list[int]:
    """Return the worker processes of a cluster."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    found = [int(word) for path in children for word in path.read_text().split()]
    return [
        child
        for child in found
        if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


if __name__ == "__main__":
    sys.exit(main())
