"""Run `doit diff`: compare two bundles."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ingot.bundles.bundle_source import opened
from ingot.bundles.compare_bundles import difference
from ingot.bundles.difference_text import markdown, text
from ingot.bundles.reader import Bundle, read_bundle
from ingot.cli.commands import FAILED, Call
from ingot.cli.json_output import print_json
from ingot.errors import IngotError
from ingot.release import locations, pull


def diff(call: Call) -> int:
    """Print what differs; exit with 1 if anything does.

    Raises: IngotError unless two complete bundles are named.
    """
    if len(call.words) != 2:
        raise IngotError(
            f"diff compares two bundles, found {len(call.words)}",
            "each is a folder, a tar, MODEL@TARGET or a release",
        )
    if call.options.get("json") and call.options.get("markdown"):
        raise IngotError("--json and --markdown are two forms of the same")
    first, second = call.words
    with _opened(first, call) as before, _opened(second, call) as after:
        found = difference(before, after)
    if call.options.get("json"):
        print_json(found)
    else:
        print(markdown(found) if call.options.get("markdown") else text(found))
    return FAILED if found.changes else 0


@contextlib.contextmanager
def _opened(word: str, call: Call) -> Iterator[Bundle]:
    """Yield the bundle that a word names; that of a release is pulled first.

    Raises: IngotError if there is none, or if it is not complete.
    """
    if not locations.is_release(word):
        with opened(word, call.root) as bundle:
            yield bundle
        return
    location = locations.parse(word)
    if not location.reference:
        raise IngotError(f"{word}: a tag or a digest is missing", f"{word}:1.4.0")
    repository = locations.open_repository(location.place)
    target = call.variables.get("target", "")
    found = pull.find(repository, location.reference, target)
    with tempfile.TemporaryDirectory(prefix="bundle-") as name:
        folder = Path(name) / "bundle"
        pull.fetch_bundle(repository, found, folder)
        yield read_bundle(folder)
