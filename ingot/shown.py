"""The files of a checkout that people look at: copies of what is in the store."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
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
            with _temporary(root, Path(target)) as temporary:
                store.copy_to(outputs[name], target, temporary)
        shown.append((path, identify(os.stat(target))))
    return tuple(shown)


def remove_left_over(root: Path, before: Record, action: Action) -> None:
    """Remove what was shown of the task and is no more.

    Called before its record is forgotten: nothing else says whose such a file is.
    """
    for path, _ in before.shown:
        if path not in action.shown:
            (root / path).unlink(missing_ok=True)


def sweep(root: Path) -> None:
    """Remove what killed builds left of the files that they were making."""
    with contextlib.suppress(OSError):
        for path in _folder(root).iterdir():
            with _held(path, fcntl.LOCK_EX | fcntl.LOCK_NB) as is_ours:
                if is_ours:
                    path.unlink()


@contextlib.contextmanager
def _temporary(root: Path, target: Path) -> Iterator[Path]:
    """Yield a file on the target's disk, held by this process.

    It is not beside the target: what a killed build leaves there would be taken for a
    part of the bundle.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    if os.stat(folder).st_dev != os.stat(target.parent).st_dev:
        folder = target.parent
    name = hashlib.sha256(os.fsencode(target)).hexdigest()[:16]
    path = folder / f".{name}"
    held = False
    while not held:
        path.touch()
        with _held(path, fcntl.LOCK_EX) as held:
            if held:
                yield path


@contextlib.contextmanager
def _held(path: Path, how: int) -> Iterator[bool]:
    """Lock the file; yield whether it is locked and still has that name."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "rb"))
            fcntl.flock(file, how)
            held = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except (FileNotFoundError, BlockingIOError):
            held = False
        yield held


def _folder(root: Path) -> Path:
    return root / "build/.ingot/tmp"
