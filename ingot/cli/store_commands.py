"""doit's commands `gc` and `store`: how large the store is, and how it is kept so."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doit.cmd_base import Command
from doit.exceptions import InvalidCommand

from ingot.cli.commands import guarded, variables
from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.project.store_usage import Builds

BUILDS = "builds.jsonl"
LIMIT = "INGOT_CACHE_LIMIT"


class Collect(Command):  # type: ignore[misc]
    """Make the store as small as its limit."""

    name = "gc"
    doc_purpose = "remove what was not used for longest, until the store fits its limit"
    doc_usage = "[limit=SIZE]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Remove; print what was removed."""
        return guarded(lambda: _collect(args), ("limit",), "gc")


class ShowStore(Command):  # type: ignore[misc]
    """What is in the store."""

    name = "store"
    doc_purpose = "size, hit rate and users of the store; `store verify` re-hashes it"
    doc_usage = "[verify]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Print the shares; or, with `verify`, read every byte."""
        if args not in ([], ["verify"]):
            raise InvalidCommand(f"store takes nothing or 'verify', found '{args[0]}'")
        return guarded(_verify if args else _show, (), "store")


def limit_bytes(root: Path) -> int | None:
    """Return the size that the store is kept to; None where it may grow.

    Raises: IngotError where the setting is no size.
    """
    from ingot.engine.byte_sizes import parse_size
    from ingot.project.pyproject import read_project

    if "limit" in variables():
        return parse_size(variables()["limit"], "limit=")
    if os.environ.get(LIMIT):
        return parse_size(os.environ[LIMIT], LIMIT)
    text = read_project(root).settings["store-limit"]
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
    from ingot.cli.tasks import store
    from ingot.engine import store_builds
    from ingot.engine.byte_sizes import say_size
    from ingot.engine.gc import GRACE_S, collect

    kept = store()
    kept.sweep()
    store_builds.trim(kept.root / BUILDS)
    kept.digests.trim()
    try:
        done = collect(kept.root, limit, GRACE_S if grace_s is None else grace_s)
    except OSError as error:
        raise IngotError(f"store {kept.root}: {error.strerror}") from error
    if done.left_bytes <= limit and not done.results + done.blobs:
        return ""
    text = (
        f"removed {done.results} results and {done.blobs} blobs,"
        f" {say_size(done.freed_bytes)}; {say_size(done.left_bytes)} are left"
    )
    if done.kept_bytes:
        text += (
            f", {say_size(done.kept_bytes)} above the limit: in use, or used within"
            f" the last {GRACE_S / 3600:.0f} h"
        )
    return text


def _collect(args: list[str]) -> int:
    if args:
        raise InvalidCommand(f"gc takes no task, found '{args[0]}'; limit=SIZE")
    limit = limit_bytes(Path.cwd())
    if limit is None:
        raise InvalidCommand(
            "gc: no limit is set; limit=SIZE, INGOT_CACHE_LIMIT, or store-limit in"
            " pyproject.toml"
        )
    print(collect_text(limit) or "nothing to remove: the store is within its limit")
    return 0


def _show() -> int:
    from ingot.cli.tasks import store
    from ingot.engine.store_survey import survey
    from ingot.project.store_usage import usage_text

    root = store().root
    print(f"{root}")
    print(usage_text(survey(root), _builds(root), limit_bytes(Path.cwd())))
    return 0


def _builds(root: Path) -> Builds:
    from ingot.engine import store_builds
    from ingot.project.store_usage import Builds

    lines = list(store_builds.read(root / BUILDS))
    ran, restored, fetched, current = (
        sum(int(line.get(word, 0)) for line in lines)
        for word in ("ran", "restored", "fetched", "up to date")
    )
    return Builds(len(lines), ran, restored + fetched, current)


def _verify() -> int:
    from ingot.cli.tasks import store
    from ingot.engine.byte_sizes import say_size
    from ingot.engine.verify_store import verify_store

    found = verify_store(store().root)
    for path in found.damaged:
        print(f"damaged, removed: {path}")
    for text in found.unreadable:
        print(f"cannot be read: {text}")
    print(
        f"{found.blobs} blobs and {found.results} results,"
        f" {say_size(found.size_bytes)}, were read: {len(found.damaged)} damaged"
    )
    if found.incomplete:
        print(f"{found.incomplete} results lack a blob; they are made again when asked")
    return int(bool(found.damaged or found.unreadable))
