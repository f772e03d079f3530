"""Open the store that the user has named, and keep it to its limit.

INGOT_CACHE names the folder and INGOT_CACHE_LIMIT the size; pyproject.toml has a size
for everybody.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ingot.engine.store import Store
from ingot.errors import IngotError
from ingot.project.plan_cache import SOURCES

BUILDS = "builds.jsonl"
LIMIT = "INGOT_CACHE_LIMIT"


def store() -> Store:
    """Return the store that INGOT_CACHE names, or the user's own."""
    return Store(store_root(), warn=_warn)


def store_root() -> Path:
    """Return the folder of the store.

    Raises: IngotError where it is in a home folder that nobody has, or among sources.
    """
    name = os.environ.get("INGOT_CACHE") or "~/.cache/ingot"
    try:
        root = Path(name).expanduser().absolute()
    except RuntimeError:
        text = f"store {name}: there is no such home folder"
        raise IngotError(text, "set INGOT_CACHE to a folder") from None
    if any(root.is_relative_to(Path.cwd() / folder) for folder in SOURCES):
        text = f"store {root}: the checkout is read from there"
        raise IngotError(text, "set INGOT_CACHE to another folder")
    return root


def _warn(message: str) -> None:
    print(f"store: {message}", file=sys.stderr)


def limit_bytes(root: Path, given: str | None = None) -> int | None:
    """Return the size that the store is kept to; None where it may grow.

    Raises: IngotError where the setting is no size.
    """
    from ingot.engine.byte_sizes import parse_size
    from ingot.project.pyproject import read_project

    if given is not None:
        return parse_size(given, "limit=")
    if os.environ.get(LIMIT):
        return parse_size(os.environ[LIMIT], LIMIT)
    text = read_project(root).store_limit
    return parse_size(text, "pyproject.toml: tool.ingot.store-limit")


def refuse_limit() -> None:
    """Refuse a limit that is no size: it would be told after the build.

    Raises: IngotError.
    """
    if os.environ.get(LIMIT):
        from ingot.engine.byte_sizes import parse_size

        parse_size(os.environ[LIMIT], LIMIT)


def keep_to_limit(root: Path) -> None:
    """Collect after a build that added to the store; say what was removed."""
    limit = limit_bytes(root)
    if limit is None:
        return
    text = collect_text(limit)
    if text:
        print(f"store: {text}", file=sys.stderr)


def collect_text(limit: int, grace_s: float | None = None) -> str:
    """Remove what does not fit; return what was removed, or "" where all fits.

    Raises: IngotError where the store cannot be written.
    """
    from ingot.engine import json_lines
    from ingot.engine.byte_sizes import format_size
    from ingot.engine.gc import GRACE_S, collect_garbage

    kept = store()
    kept.sweep()
    json_lines.trim(kept.root / BUILDS)
    kept.digests.trim()
    try:
        done = collect_garbage(
            kept.root, limit, GRACE_S if grace_s is None else grace_s
        )
    except OSError as error:
        raise IngotError(f"store {kept.root}: {error.strerror}") from error
    if done.left_bytes <= limit and not done.results + done.blobs:
        return ""
    text = (
        f"removed {done.results} results and {done.blobs} blobs,"
        f" {format_size(done.freed_bytes)}; {format_size(done.left_bytes)} are left"
    )
    if done.excess_bytes:
        text += (
            f", {format_size(done.excess_bytes)} above the limit: in use, or used"
            f" within the last {GRACE_S / 3600:.0f} h"
        )
    return text
