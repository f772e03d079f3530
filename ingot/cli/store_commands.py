"""Run `doit gc` and `doit store`, and limit the store's size after a build.

INGOT_CACHE_LIMIT names the size, or else `store-limit` in pyproject.toml.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.cli.commands import Call
from ingot.cli.connections import open_store, store_root
from ingot.cli.json_output import (
    StoreOutput,
    StoreShare,
    StoreVerifyOutput,
    print_json,
)
from ingot.engine.event_log import EventLog
from ingot.errors import IngotError, counted

if TYPE_CHECKING:
    from ingot.engine.store_survey import StoreSurvey
    from ingot.project.store_usage import Builds

BUILDS = "builds.jsonl"
LIMIT = "INGOT_CACHE_LIMIT"


def collect_garbage(call: Call) -> int:
    """Remove what does not fit; print what was removed."""
    limit = limit_bytes(call.root, call.variables.get("limit"))
    if limit is None:
        raise IngotError(
            "gc: no limit is set; limit=SIZE, INGOT_CACHE_LIMIT, or store-limit in"
            " pyproject.toml"
        )
    print(collect_text(limit) or "nothing to remove: the store is within its limit")
    return 0


def show_or_verify(call: Call) -> int:
    """Print how the store is used; or, with `verify`, read every byte of it."""
    if call.words not in ((), ("verify",)):
        found = call.words[0]
        raise IngotError(f"store takes nothing or 'verify', found '{found}'")
    return verify(call.json) if call.words else _show(call.root, call.json)


def limit_bytes(root: Path, given: str | None = None) -> int | None:
    """Return the limit of the store's size; None if it may grow.

    Raises: IngotError if the setting is not a size.
    """
    from ingot.engine.byte_sizes import parse_size
    from ingot.project.pyproject import read_project

    if given is not None:
        return parse_size(given, "limit=")
    if os.environ.get(LIMIT):
        return parse_size(os.environ[LIMIT], LIMIT)
    text = read_project(root).store_limit
    return parse_size(text, "pyproject.toml: tool.ingot.store-limit")


def check_limit() -> None:
    """Reject a limit that is not a size: otherwise the build would end with the error.

    Raises: IngotError.
    """
    if os.environ.get(LIMIT):
        from ingot.engine.byte_sizes import parse_size

        parse_size(os.environ[LIMIT], LIMIT)


def record_build(log: EventLog, code: int, start: float) -> None:
    """Record a build that has ended; shrink the store if it exceeds its limit.

    `start` is of the monotonic clock: the wall clock may jump during a build.
    """
    from ingot.engine import json_lines

    line = {"at": round(log.started_s, 3), **log.counts}
    json_lines.append(store_root() / BUILDS, line)
    if set(log.ends.values()) == {"up to date"}:
        return
    from ingot.project import history

    history.add(log, code, time.monotonic() - start)
    try:
        limit = limit_bytes(log.root)
        if limit is not None and (text := collect_text(limit)):
            print(f"store: {text}", file=sys.stderr)
    except IngotError as error:
        print(error, file=sys.stderr)


def collect_text(limit: int, grace_s: float | None = None) -> str:
    """Remove what does not fit; return what was removed, or "" if everything fits.

    Raises: IngotError if the store cannot be written.
    """
    from ingot.engine import gc, json_lines
    from ingot.engine.byte_sizes import format_size

    opened = open_store()
    opened.sweep()
    json_lines.trim(opened.root / BUILDS)
    opened.digests.trim()
    grace_s = gc.GRACE_S if grace_s is None else grace_s
    try:
        done = gc.collect_garbage(opened.root, limit, grace_s)
    except OSError as error:
        raise IngotError(f"store {opened.root}: {error.strerror}") from error
    if done.left_bytes <= limit and not done.results + done.blobs:
        return ""
    text = (
        f"removed {counted(done.results, 'result')} and {counted(done.blobs, 'blob')},"
        f" {format_size(done.freed_bytes)}; {format_size(done.left_bytes)} are left"
    )
    if done.excess_bytes:
        text += (
            f", {format_size(done.excess_bytes)} above the limit: in use, or used"
            f" within the last {gc.GRACE_S / 3600:.0f} h"
        )
    return text


def verify(as_json: bool = False) -> int:
    """Read every byte of the store; return 1 if something is corrupt."""
    from ingot.engine.byte_sizes import format_size
    from ingot.engine.verify_store import verify_store

    found = verify_store(open_store().root)
    failed = int(bool(found.corrupt or found.unreadable))
    if as_json:
        corrupt, unreadable = (
            tuple(map(str, x)) for x in (found.corrupt, found.unreadable)
        )
        counts = (found.blobs, found.results, found.size_bytes)
        print_json(StoreVerifyOutput(*counts, corrupt, unreadable, found.incomplete))
        return failed
    for path in found.corrupt:
        print(f"corrupt, removed: {path}")
    for text in found.unreadable:
        print(f"cannot be read: {text}")
    print(
        f"read {counted(found.blobs, 'blob')} and {counted(found.results, 'result')},"
        f" {format_size(found.size_bytes)}: {len(found.corrupt)} corrupt"
    )
    if found.incomplete:
        lack, them = ("lack", "them") if found.incomplete > 1 else ("lacks", "it")
        results = counted(found.incomplete, "result")
        print(f"{results} {lack} a blob; the next build that needs {them} runs again")
    return failed


def _show(root: Path, as_json: bool) -> int:
    from ingot.engine.store_survey import survey
    from ingot.project.store_usage import usage_text

    folder = open_store().root
    found, builds, limit = survey(folder), _builds(folder), limit_bytes(root)
    if as_json:
        print_json(_usage(folder, found, builds, limit))
        return 0
    print(folder)
    print(usage_text(found, builds, limit))
    return 0


def _usage(
    folder: Path, found: StoreSurvey, builds: Builds, limit: int | None
) -> StoreOutput:
    from ingot.project.store_usage import KINDS, shares

    by_kind = {
        kind: tuple(
            StoreShare(share.name, share.results, round(share.size_bytes))
            for share in shares(found, kind)
        )
        for kind in KINDS
    }
    return StoreOutput(
        folder=str(folder),
        size_bytes=found.size_bytes,
        limit_bytes=limit,
        results=len(found.entries),
        blobs=len(found.blobs),
        builds=builds.builds,
        ran=builds.ran,
        restored=builds.restored,
        up_to_date=builds.current,
        models=by_kind["model"],
        targets=by_kind["target"],
        stages=by_kind["stage"],
    )


def _builds(root: Path) -> Builds:
    from ingot.engine import json_lines
    from ingot.project.store_usage import Builds

    lines = list(json_lines.read(root / BUILDS))
    ran, restored, fetched, up_to_date = (
        sum(int(line.get(word, 0)) for line in lines)
        for word in ("ran", "restored", "fetched", "up to date")
    )
    return Builds(len(lines), ran, restored + fetched, up_to_date)
