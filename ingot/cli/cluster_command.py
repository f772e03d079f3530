"""Run `doit cluster`: start workers on this machine, to try a distributed build."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from ingot.cli.commands import Call
from ingot.cli.variables import integer
from ingot.errors import IngotError

# Dask's own port for a scheduler; 0 takes any free one.
PORT = 8786
LAST_PORT = 65_535


def cluster(call: Call) -> int:
    """Run a scheduler and workers until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = call.root / "build/.ingot/cluster"
    own = (folder / "shared").as_uri()
    shared = os.environ.get("INGOT_SHARED_CACHE") or own
    try:
        from ingot.engine.remote.local_cluster import serve

        n_workers = integer(call.variables, "workers", 1) or 2
        serve(n_workers, _port(call.variables), folder, shared)
    except ModuleNotFoundError as error:
        raise IngotError(
            f"cluster: the package '{error.name}' is not installed",
            "run: pip install 'ingot-build[dask]'",
        ) from error
    return 0


def _port(variables: Mapping[str, str]) -> int:
    port = integer(variables, "port", 0)
    if port is not None and port > LAST_PORT:
        raise IngotError(f"port={port}: expected {LAST_PORT} or less")
    return PORT if port is None else port
