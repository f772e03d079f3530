"""Measure how many actions per second a Dask scheduler distributes.

    python benchmarks/scale.py [--actions 10000]

Scheduler, workers and requests are those of a build; instead of an action, two workers
run a stub that waits as a short action would, and responds. The more stubs they run at
the same time, the more the scheduler has to do, until it or the build is fully busy.
Each row is one number of slots, with as many actions as take five seconds; the last row
runs all of them. A build has 200 threads that wait for workers, so it fills no more
slots.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sharing import ROOT, workers

from ingot.cli.build_command import IN_FLIGHT
from ingot.codec import to_json
from ingot.engine.actions import Action, Digest, resolve_action
from ingot.engine.remote import dask_client
from ingot.engine.remote.request import WorkRequest, WorkResponse

# The duration of the stub; a real action of a model takes seconds.
WAIT_S = 0.25
ROW_S = 5.0
SLOTS = (2, 8, 32, 64, 128, 200)
# A row that reaches a smaller share of its slots' capacity has met the limit.
REACHED = 0.8

SERVE = """
import sys
from pathlib import Path
from ingot.engine.remote import local_cluster as cluster
made = cluster.worker
cluster.worker = lambda *words: made(*words) | {"nthreads": int(sys.argv[1])}
cluster.serve(2, 0, Path(sys.argv[2]), f"file://{sys.argv[2]}/shared")
"""


@dataclass(frozen=True)
class Row:
    """The result for a number of slots; processor time in ms per action."""

    slots: int
    actions: int
    per_s: float
    scheduler_ms: float
    client_ms: float
    workers_ms: float

    @property
    def possible_per_s(self) -> float:
        """Return the actions per second of slots that never wait."""
        return self.slots / WAIT_S


def stub(text: str) -> str:
    """Respond to a request as a worker does; the scheduler calls this."""
    time.sleep(WAIT_S)
    digest = Digest("0" * 64, 1)
    return to_json(WorkResponse("stub", outputs=(("out", digest),), log=digest))


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, default=10_000)
    most = parser.parse_args().actions
    rows = []
    for slots in SLOTS:
        n = most if slots == SLOTS[-1] else min(most, int(slots / WAIT_S * ROW_S))
        with tempfile.TemporaryDirectory() as name:
            rows.append(measure(slots, n, Path(name)))
        print(f"{slots} slots: {n} actions", file=sys.stderr, flush=True)
    print(table(rows))
    return 0


def measure(slots: int, n: int, root: Path) -> Row:
    """Return what two workers with so many slots together do."""
    dask_client.execute = stub
    with serving(slots // 2, root) as (pid, address):
        dask = dask_client.DaskWorkers(address, print)

        def run(place: int) -> None:
            # As long as a request of a build.
            action = Action(f"step:{place}", ("sh", "-c", ":"), (), ("out",))
            resolved = resolve_action(
                action, (("in", Digest("1" * 64, 7)),), (("sandbox", "none"),)
            )
            request = WorkRequest(action.task, resolved, (), False, "another store")
            response = dask.run(request, f"{slots}-{place}")
            assert response.outputs is not None, response.rejection

        with ThreadPoolExecutor(min(IN_FLIGHT, n)) as pool:
            list(pool.map(run, range(-slots, 0)))  # not measured: connections, imports
            children = workers(pid)
            before = [cpu_s(pid), time.process_time(), sum(map(cpu_s, children))]
            start = time.perf_counter()
            list(pool.map(run, range(n)))
            wall_s = time.perf_counter() - start
        after = [cpu_s(pid), time.process_time(), sum(map(cpu_s, children))]
        dask.close()
    spent = [(b - a) * 1e3 / n for a, b in zip(before, after, strict=True)]
    return Row(slots, n, n / wall_s, *spent)


@contextmanager
def serving(n_threads: int, root: Path) -> Iterator[tuple[int, str]]:
    """Yield the process of a cluster, which contains the scheduler, and its address."""
    words = [sys.executable, "-c", SERVE, str(n_threads), str(root)]
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/benchmarks"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "executor=" in line)
        try:
            yield process.pid, line.strip().rpartition("executor=")[2]
        finally:
            process.terminate()


def cpu_s(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def table(rows: list[Row]) -> str:
    """Return the rows as text, and where they stop growing."""
    lines = [
        f"{'slots':>5} {'actions':>8} {'actions/s':>10} {'possible':>9} "
        f"{'overhead ms':>12} {'of it scheduler':>16} {'client':>7} {'workers':>8}"
    ]
    for row in rows:
        whole = row.scheduler_ms + row.client_ms + row.workers_ms
        lines.append(
            f"{row.slots:5} {row.actions:8} {row.per_s:10.0f}"
            f" {row.possible_per_s:9.0f} {whole:12.2f} {row.scheduler_ms:16.2f}"
            f" {row.client_ms:7.2f} {row.workers_ms:8.2f}"
        )
    full = [row for row in rows if row.per_s < REACHED * row.possible_per_s]
    if full:
        row = full[0]
        share = row.per_s * row.scheduler_ms / 10
        most = max(item.per_s for item in rows)
        lines.append(
            f"saturated at {row.slots} slots; {most:.0f} actions/s at most;"
            f" the scheduler has {share:.0f} % of a core then"
        )
    else:
        lines.append("not saturated")
    return "\n".join(lines)


if __name__ == "__main__":
    # The workers find the stub by this name.
    import scale

    sys.exit(scale.main())
