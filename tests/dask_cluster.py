"""Run a cluster in separate processes, and machines that build with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ingot.engine.actions import Action
from ingot.engine.remote.dask_client import DaskWorkers
from ingot.engine.remote.remote_executor import RemoteExecutor
from tests.cache_server import Machine
from tests.project import ROOT

SERVE = """
import sys
from pathlib import Path
from ingot.engine.remote.local_cluster import serve
serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
"""


@dataclass(frozen=True)
class DaskCluster:
    """A running cluster."""

    process: subprocess.Popen[str]
    address: str
    shared_cache: str

    def machine(self, root: Path, address: str = "") -> Machine:
        """Return a machine that has its actions run by the cluster."""
        machine = Machine(root, address or self.shared_cache)
        assert machine.shared is not None
        dask = DaskWorkers(self.address, machine.reported.append)
        machine.executor._remote = RemoteExecutor(dask, machine.shared, machine.store)
        return machine


@contextmanager
def dask_cluster(
    root: Path, n_workers: int = 2, port: int = 0
) -> Iterator[DaskCluster]:
    """Yield a cluster; it and its workers are gone after the block."""
    shared = f"file://{root}/shared"
    words = [str(n_workers), str(port), str(root), shared]
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        place = ""
        for line in process.stdout:
            if "executor=" in line:
                place = line.strip().rpartition("executor=")[2]
                break
        assert place, "the cluster did not start"
        try:
            yield DaskCluster(process, place, shared)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def shell(task: str, script: str, exclusive: bool = False) -> Action:
    """Return an action that runs a script; it writes `out`."""
    return Action(
        task=task,
        argv=("sh", "-c", script),
        inputs=(),
        outputs=("out",),
        exported_to=(f"build/{task.replace(':', '-')}",),
        exclusive=exclusive,
    )


def processes(word: str) -> list[int]:
    """Return the processes that have the word in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in words:
                found.append(int(entry.name))
    return found


def until(condition: Callable[[], object], timeout_s: float = 30.0) -> None:
    """Wait for the condition; fail where it does not come."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def parent(pid: int) -> int:
    """Return the parent of a process."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(") ")[2].split()[1])


def poison(text: str) -> str:
    """Kill the worker that runs this, as some actions do: out of memory, a driver."""
    os.kill(os.getpid(), signal.SIGKILL)
    return text
