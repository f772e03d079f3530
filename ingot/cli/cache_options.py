"""The shared cache and the executor of a command: opened at its start, then closed.

`shared-cache` and `shared-cache-mode` in pyproject.toml's `[tool.ingot]`, or the
variables INGOT_SHARED_CACHE and INGOT_SHARED_CACHE_MODE, which come first. With none of
them nothing is imported.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ingot.errors import IngotError, did_you_mean

if TYPE_CHECKING:
    from ingot.engine.cache.shared_cache import SharedCache
    from ingot.engine.remote.remote_executor import RemoteExecutor, WorkerPool
    from ingot.engine.store import Store
    from ingot.project.catalogue_values import Settings

MODES = ("read-write", "read")

EXECUTORS = ("dask", "dask+tls", "grpc", "grpcs")

_opened: list[SharedCache] = []
_pools: list[WorkerPool] = []


def open_cache(settings: Settings, store: Store, executor: str) -> SharedCache | None:
    """Return the shared cache of the settings; None without one.

    A server that runs actions has a cache too, which is used unless another is named.

    Raises: IngotError where address or mode is wrong, or a package is missing.
    """
    kept, mode = settings.shared_cache
    mode = os.environ.get("INGOT_SHARED_CACHE_MODE") or mode
    address = os.environ.get("INGOT_SHARED_CACHE", kept)
    if not address and executor.startswith(("grpc:", "grpcs:")):
        address = executor
    if mode not in MODES:
        raise IngotError(
            f"shared cache: mode is '{mode}'; expected {' or '.join(MODES)}",
        )
    if not address:
        return None
    from ingot.engine.cache.address import connect, has_password
    from ingot.engine.cache.backend import Timeouts
    from ingot.engine.cache.shared_cache import SharedCache

    if has_password(kept):
        raise IngotError(
            "pyproject.toml: tool.ingot.shared-cache: names a user; expected none",
            "put it into ~/.netrc, INGOT_SHARED_CACHE or INGOT_SHARED_CACHE_TOKEN",
        )
    timeouts = Timeouts()
    cache = SharedCache(
        connect(address, os.environ, timeouts),
        store,
        _warn,
        writes=mode == "read-write",
        timeouts=timeouts,
        project=settings.project,
    )
    _opened.append(cache)
    return cache


def open_remote(
    address: str, shared: SharedCache | None, store: Store
) -> RemoteExecutor | None:
    """Return the machines that `executor=` names; None where it is this one.

    Raises: IngotError where the address is wrong, or a package is missing.
    """
    if address == "local":
        return None
    scheme = address.partition("://")[0]
    if scheme not in EXECUTORS:
        raise IngotError(
            f"executor={address}: no executor named '{scheme}';"
            " expected local, dask://HOST:PORT or grpc://HOST:PORT/INSTANCE",
            did_you_mean(scheme, ["local", *EXECUTORS], "executors"),
        )
    if shared is None:
        raise IngotError(
            f"executor={address}: there is no shared cache, through which workers get"
            " inputs and give results",
            "set INGOT_SHARED_CACHE, or shared-cache in pyproject.toml",
        )
    extra = "dask" if scheme.startswith("dask") else "reapi"
    try:
        if extra == "dask":
            from ingot.engine.remote.dask_client import DaskWorkers
            from ingot.engine.remote.remote_executor import RemoteExecutor

            workers: WorkerPool = DaskWorkers(address, _warn)
            remote = RemoteExecutor(workers, shared, store)
        else:
            from ingot.engine.remote.reapi_client import open_server

            workers, remote = open_server(address, shared, store, os.environ, _warn)
    except ModuleNotFoundError as error:
        raise IngotError(
            f"executor={address}: the package '{error.name}' is not installed",
            f"run: pip install -e '.[{extra}]'",
        ) from error
    _pools.append(workers)
    return remote


def finish() -> None:
    """Wait until everything that was to be sent is there."""
    while _opened:
        # Known until its end: stopped meanwhile, `abandon` says what was not sent.
        _opened[-1].finish()
        _opened.pop()
    _close()


def abandon() -> None:
    """Send no more."""
    while _opened:
        _opened.pop().abandon()
    _close()


def _close() -> None:
    while _pools:
        _pools.pop().close()


def _warn(message: str) -> None:
    print(message, file=sys.stderr)
