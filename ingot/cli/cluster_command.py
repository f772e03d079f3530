"""doit's command `cluster`: workers on this machine, to try a distributed build."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from doit.cmd_base import Command
from doit.exceptions import InvalidCommand

from ingot.cli.commands import guarded, variables
from ingot.errors import IngotError
from ingot.project.options import whole

# Dask's own for a scheduler; 0 takes any that is free.
PORT = 8786
LAST_PORT = 65_535


class Cluster(Command):  # type: ignore[misc]
    """A scheduler and workers on this machine."""

    name = "cluster"
    doc_purpose = "start a scheduler and workers here, to try executor=dask://..."
    doc_usage = "[workers=N] [port=N]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Run it until Ctrl-C or SIGTERM."""

        def begin() -> int:
            if args:
                raise InvalidCommand(f"cluster takes no task, found '{args[0]}'")
            signal.signal(signal.SIGTERM, _stop)
            place = Path.cwd() / "build/.ingot/cluster"
            own = (place / "shared").as_uri()
            shared = os.environ.get("INGOT_SHARED_CACHE") or own
            try:
                from ingot.engine.remote.local_cluster import serve

                n_workers = whole(variables(), "workers", 1) or 2
                serve(n_workers, _port(), place, shared)
            except ModuleNotFoundError as error:
                raise InvalidCommand(
                    f"cluster: the package '{error.name}' is not installed\n"
                    "  run: pip install -e '.[dask]'"
                ) from error
            return 0

        try:
            return guarded(begin, ("workers", "port"), "cluster")
        except KeyboardInterrupt:
            return 130


def _port() -> int:
    port = whole(variables(), "port", 0)
    if port is not None and port > LAST_PORT:
        raise IngotError(f"port={port}: expected {LAST_PORT} or less")
    return PORT if port is None else port


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt
