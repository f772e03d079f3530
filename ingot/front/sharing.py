"""The shared cache of a command: found in the settings, finished at the end.

`shared-cache` and `shared-cache-mode` in pyproject.toml's `[tool.ingot]`, or the
variables INGOT_SHARED_CACHE and INGOT_SHARED_CACHE_MODE, which come first. With none of
them nothing is imported.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.edges.shared.cache import SharedCache
    from ingot.edges.store import Store

MODES = ("read-write", "read")

_opened: list[SharedCache] = []


def open_cache(settings: tuple[str, str], store: Store) -> SharedCache | None:
    """Return the shared cache of the settings (address, mode); None without one.

    Raises: IngotError where address or mode is wrong, or a package is missing.
    """
    kept, mode = settings
    mode = os.environ.get("INGOT_SHARED_CACHE_MODE") or mode
    address = os.environ.get("INGOT_SHARED_CACHE", kept)
    if not address:
        return None
    from ingot.edges.shared.address import connect, has_password
    from ingot.edges.shared.cache import SharedCache
    from ingot.edges.shared.remote import Patience

    if has_password(kept):
        raise IngotError(
            "pyproject.toml: tool.ingot.shared-cache: names a user; expected none",
            "put it into ~/.netrc, INGOT_SHARED_CACHE or INGOT_SHARED_CACHE_TOKEN",
        )
    if mode not in MODES:
        raise IngotError(
            f"shared cache: mode is '{mode}'; expected {' or '.join(MODES)}",
        )
    patience = Patience()
    cache = SharedCache(
        connect(address, os.environ, patience),
        store,
        _warn,
        writes=mode == "read-write",
        patience=patience,
    )
    _opened.append(cache)
    return cache


def finish() -> None:
    """Wait until everything that was to be sent is there."""
    while _opened:
        _opened.pop().finish()


def abandon() -> None:
    """Send no more."""
    while _opened:
        _opened.pop().abandon()


def _warn(message: str) -> None:
    print(message, file=sys.stderr)
