"""Open the store, the shared cache and the workers that a command uses.

INGOT_CACHE names the store. INGOT_SHARED_CACHE and INGOT_SHARED_CACHE_MODE come before
`shared-cache` and `shared-cache-mode` in pyproject.toml's `[tool.ingot]`. Without any
of them, no module of a shared cache is imported. A cache is only read unless one of
them says `read-write`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.engine.store import Store
from ingot.engine.trust import Trust, check_installed, signer
from ingot.errors import IngotError, did_you_mean
from ingot.project.plan_cache import SOURCES

if TYPE_CHECKING:
    from ingot.engine.cache.shared_cache import SharedCache
    from ingot.engine.remote.remote_executor import RemoteExecutor
    from ingot.project.catalogue_values import Settings

MODES = ("read", "read-write")

EXECUTORS = ("dask", "dask+tls", "grpc", "grpcs")


def open_store() -> Store:
    """Return the store that INGOT_CACHE names, or the user's own."""
    return Store(store_root(), warn=_warn_of_store)


def store_root() -> Path:
    """Return the folder of the store.

    Raises: IngotError if its home folder does not exist, or it is among the sources.
    """
    name = os.environ.get("INGOT_CACHE") or "~/.cache/ingot"
    try:
        root = Path(name).expanduser().absolute()
    except RuntimeError:
        text = f"store {name}: there is no such home folder"
        raise IngotError(text, "set INGOT_CACHE to a folder") from None
    if any(root.is_relative_to(Path.cwd() / folder) for folder in SOURCES):
        text = f"store {root}: the checkout's sources are in this folder"
        raise IngotError(text, "set INGOT_CACHE to another folder")
    return root


def open_trust(settings: Settings) -> Trust | None:
    """Return the keys that the project trusts; None if it uses unsigned results.

    Raises: IngotError if a package is missing.
    """
    if settings.keys is None:
        return None
    check_installed("pyproject.toml: tool.ingot.trust")
    return Trust(settings.keys)


def open_cache(
    settings: Settings, store: Store, executor: str, trust: Trust | None
) -> SharedCache | None:
    """Return the shared cache of the settings; None if they name none.

    A server that runs actions has a cache too: it is used unless another is named.

    Raises: IngotError if address or mode is wrong, or a package is missing.
    """
    configured, mode = settings.shared_cache
    mode = os.environ.get("INGOT_SHARED_CACHE_MODE") or mode or "read"
    address = os.environ.get("INGOT_SHARED_CACHE", configured)
    if not address and executor.startswith(("grpc:", "grpcs:")):
        # The server that runs the actions gets their inputs this way.
        address, mode = executor, "read-write"
    if mode not in MODES:
        raise IngotError(
            f"shared cache: mode is '{mode}'; expected {' or '.join(MODES)}",
        )
    if not address:
        return None
    from ingot.engine.cache.backend import Timeouts
    from ingot.engine.cache.cache_address import connect, has_password
    from ingot.engine.cache.shared_cache import SharedCache

    if has_password(configured):
        raise IngotError(
            "pyproject.toml: tool.ingot.shared-cache: names a user; expected none",
            "put it into ~/.netrc, INGOT_SHARED_CACHE or INGOT_SHARED_CACHE_TOKEN",
        )
    timeouts = Timeouts()
    return SharedCache(
        connect(address, os.environ, timeouts),
        store,
        _warn,
        writes=mode == "read-write",
        timeouts=timeouts,
        project=settings.project,
        trust=trust,
        sign=signer(os.environ) if mode == "read-write" else None,
    )


def open_workers(
    address: str, shared: SharedCache | None, store: Store
) -> RemoteExecutor | None:
    """Return the machines that `executor=` names; None if it is this one.

    Raises: IngotError if the address is wrong, or a package is missing.
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
            f"executor={address}: workers exchange inputs and results through a"
            " shared cache, and none is set",
            "set INGOT_SHARED_CACHE, or shared-cache in pyproject.toml",
        )
    if not shared.may_write:
        raise IngotError(
            f"executor={address}: workers get inputs from the shared cache, and this"
            " machine only reads it",
            "set INGOT_SHARED_CACHE_MODE=read-write, or shared-cache-mode ="
            ' "read-write" in pyproject.toml',
        )
    extra = "dask" if scheme.startswith("dask") else "reapi"
    try:
        if extra == "dask":
            from ingot.engine.remote.dask_client import DaskWorkers
            from ingot.engine.remote.remote_executor import RemoteExecutor

            return RemoteExecutor(DaskWorkers(address, _warn), shared, store)
        from ingot.engine.remote.reapi_client import open_server

        return open_server(address, shared, store, os.environ, _warn)
    except ModuleNotFoundError as error:
        raise IngotError(
            f"executor={address}: the package '{error.name}' is not installed",
            f"run: pip install 'ingot-build[{extra}]'",
        ) from error


def warn_of_trust(trust: Trust | None) -> None:
    """Say how many results of other machines were passed over, and why."""
    text = trust.report() if trust is not None else ""
    if text:
        _warn(text)


def _warn(message: str) -> None:
    print(message, file=sys.stderr)


def _warn_of_store(message: str) -> None:
    print(f"store: {message}", file=sys.stderr)
