"""Run `doit diff`: compare two bundles."""

from __future__ import annotations

from ingot.bundles.bundle_source import opened
from ingot.bundles.compare_bundles import difference
from ingot.bundles.difference_text import markdown, text
from ingot.cli.commands import FAILED, Call
from ingot.cli.json_output import print_json
from ingot.errors import IngotError


def diff(call: Call) -> int:
    """Print what differs; exit with 1 if anything does.

    Raises: IngotError unless two complete bundles are named.
    """
    if len(call.words) != 2:
        raise IngotError(
            f"diff compares two bundles, found {len(call.words)}",
            "each is a folder, a tar or MODEL@TARGET",
        )
    if call.options.get("json") and call.options.get("markdown"):
        raise IngotError("--json and --markdown are two forms of the same")
    first, second = call.words
    with opened(first, call.root) as before, opened(second, call.root) as after:
        found = difference(before, after)
    if call.options.get("json"):
        print_json(found)
    else:
        print(markdown(found) if call.options.get("markdown") else text(found))
    return FAILED if found.changes else 0
