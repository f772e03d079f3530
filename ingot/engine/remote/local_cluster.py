"""Start a scheduler and workers on this machine, to try a distributed build.

Everything listens on 127.0.0.1 only, because any client of a scheduler can run
commands.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ingot.engine.cache.cache_address import has_password, without_password
from ingot.engine.machine import memory_bytes
from ingot.engine.remote.dask_client import SILENT_S
from ingot.engine.remote.request import BENCH, LABELS
from ingot.engine.toolchain import SYSTEM_FILES
from ingot.errors import IngotError, counted

HOST = "127.0.0.1"

SETTINGS = {
    "distributed.comm.timeouts.tcp": f"{SILENT_S}s",
    # Dask profiles itself 100 and 50 times a second in each process, on the processors
    # that actions need.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
}


def here(benchmarks: bool, n_workers: int) -> dict[str, float]:
    """Return the labels of one of this machine's workers, and its share of memory."""
    found = {
        label: 1.0
        for tool, label in LABELS.items()
        if any(os.path.exists(path) for path in SYSTEM_FILES[tool])
    }
    if benchmarks:
        found[BENCH] = 1.0
    return {**found, "memory": float(memory_bytes() // n_workers)}


def worker(
    number: int, n_workers: int, root: Path, shared_cache: str
) -> dict[str, Any]:
    """Return the options of one worker; only the first one runs benchmarks."""
    return {
        "host": HOST,
        "dashboard_address": None,
        "nthreads": max(1, len(os.sched_getaffinity(0)) // n_workers),
        "resources": here(number == 0, n_workers),
        "local_directory": str(root / "workers"),
        "env": {
            "INGOT_CACHE": str(root / "store"),
            "INGOT_SHARED_CACHE": shared_cache,
            "DASK_LOGGING__DISTRIBUTED": "error",
            # The processes that it starts do not inherit this process's settings.
            **{
                f"DASK_{name.replace('.', '__').upper()}": str(value)
                for name, value in SETTINGS.items()
            },
        },
    }


@contextmanager
def cluster(n_workers: int, port: int, root: Path, shared_cache: str) -> Iterator[Any]:
    """Yield a cluster that ends, with all its processes, when the block does.

    Its workers share a store under `root`, so that only one of them benchmarks at a
    time.

    Raises: IngotError if the port is taken.
    """
    import dask
    from distributed import Nanny, Scheduler, SpecCluster

    workers = {
        number: {
            "cls": Nanny,
            "options": worker(number, n_workers, root, shared_cache),
        }
        for number in range(n_workers)
    }
    scheduler = {
        "cls": Scheduler,
        "options": {
            "host": HOST,
            "port": port,
            "dashboard": False,
            "dashboard_address": f"{HOST}:0",
        },
    }
    with dask.config.set(SETTINGS):
        try:
            running = SpecCluster(  # type: ignore[no-untyped-call]
                workers=workers, scheduler=scheduler, silence_logs=50
            )
        except (OSError, RuntimeError) as error:
            raise IngotError(
                f"cluster: cannot listen on port {port} of {HOST}: {error}",
                "stop what uses it, or choose another: port=N",
            ) from error
        with running:
            yield running


def serve(n_workers: int, port: int, root: Path, shared_cache: str) -> None:
    """Run a cluster until this process is stopped."""
    with cluster(n_workers, port, root, shared_cache) as running:
        address = running.scheduler_address.partition("://")[2]
        print(welcome(n_workers, address, shared_cache), flush=True)
        threading.Event().wait()


def welcome(n_workers: int, address: str, shared_cache: str) -> str:
    """Return how to build there, without the shared cache's password.

    Raises: IngotError if the shared cache's address is not one.
    """
    shown = without_password(shared_cache)
    words = (
        f"INGOT_SHARED_CACHE={shown} INGOT_SHARED_CACHE_MODE=read-write"
        f" doit build executor=dask://{address}"
    )
    if has_password(shared_cache):
        words += (
            "\n  with the cache's user and password in INGOT_SHARED_CACHE, or netrc"
        )
    return (
        f"{counted(n_workers, 'worker')}, with the shared cache {shown}\n"
        f"build there, in another terminal, until Ctrl-C here:\n  {words}"
    )
