"""The files of a checkout that people look at: copies of what is in the store."""

from __future__ import annotations

import os
from pathlib import Path

from ingot.edges.digests import Identity, identify
from ingot.edges.records import Record
from ingot.edges.store import Store
from ingot.values import Action, ActionResult


def are_left(root: Path, record: Record) -> bool:
    """Return whether the files shown of a task are untouched."""
    for path, identity in record.shown:
        try:
            if identify(os.stat(f"{root}/{path}")) != identity:
                return False
        except OSError:
            return False
    return True


def show(
    root: Path, store: Store, action: Action, result: ActionResult
) -> tuple[tuple[str, Identity], ...]:
    """Copy outputs to where people look; return what the copies are.

    Raises: OSError where one cannot be written.
    """
    outputs, shown = dict(result.outputs), []
    for name, path in zip(action.outputs, action.shown, strict=False):
        target = f"{root}/{path}"
        try:
            is_copy = store.digests.of_file(target) == outputs[name]
        except OSError:
            is_copy = False
        if not is_copy:
            store.copy_to(outputs[name], target)
        shown.append((path, identify(os.stat(target))))
    return tuple(shown)
