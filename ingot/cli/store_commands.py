"""doit's commands `gc` and `store`: how large the store is, and how it is kept so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from doit.cmd_base import Command
from doit.exceptions import InvalidCommand

from ingot.cli.commands import guarded, variables
from ingot.cli.user_store import BUILDS, collect_text, limit_bytes, store

if TYPE_CHECKING:
    from ingot.project.store_usage import Builds


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


def _collect(args: list[str]) -> int:
    if args:
        raise InvalidCommand(f"gc takes no task, found '{args[0]}'; limit=SIZE")
    limit = limit_bytes(Path.cwd(), variables().get("limit"))
    if limit is None:
        raise InvalidCommand(
            "gc: no limit is set; limit=SIZE, INGOT_CACHE_LIMIT, or store-limit in"
            " pyproject.toml"
        )
    print(collect_text(limit) or "nothing to remove: the store is within its limit")
    return 0


def _show() -> int:
    from ingot.engine.store_survey import survey
    from ingot.project.store_usage import usage_text

    root = store().root
    print(f"{root}")
    print(usage_text(survey(root), _builds(root), limit_bytes(Path.cwd())))
    return 0


def _builds(root: Path) -> Builds:
    from ingot.engine import json_lines
    from ingot.project.store_usage import Builds

    lines = list(json_lines.read(root / BUILDS))
    ran, restored, fetched, current = (
        sum(int(line.get(word, 0)) for line in lines)
        for word in ("ran", "restored", "fetched", "up to date")
    )
    return Builds(len(lines), ran, restored + fetched, current)


def _verify() -> int:
    from ingot.engine.byte_sizes import format_size
    from ingot.engine.verify_store import verify_store

    found = verify_store(store().root)
    for path in found.corrupt:
        print(f"damaged, removed: {path}")
    for text in found.unreadable:
        print(f"cannot be read: {text}")
    print(
        f"{found.blobs} blobs and {found.results} results,"
        f" {format_size(found.size_bytes)}, were read: {len(found.corrupt)} damaged"
    )
    if found.incomplete:
        print(f"{found.incomplete} results lack a blob; they are made again when asked")
    return int(bool(found.corrupt or found.unreadable))
