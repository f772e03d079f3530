"""Bring outputs from the store into the checkout, where people look at them.

A small output is a copy. A large one is a hard link, a second name of the store's own
read-only blob, so that it takes no second place on the disk. Root can edit it all the
same: then the build finds that the blob is corrupt, and makes it again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from ingot.engine import atomic_files
from ingot.engine.actions import Action, ActionResult, Digest
from ingot.engine.digests import Identity, identify
from ingot.engine.store import Store
from ingot.engine.task_records import TaskRecord

# Copying less costs nothing, and people may edit it.
LINKED_BYTES = 1 << 20

# In place of a link's ctime, which changes when the blob gets or loses another name. If
# the content changes, `Store.holds` finds it, which reads the blob then.
_ANY = 0

# The suffix of a link's first name, which the lock of the file without it protects.
_LINK = ".link"


def changes(root: Path, record: TaskRecord) -> Iterator[tuple[str, str]]:
    """Yield each exported file that is not as the build left it, and what happened."""
    for path, identity in record.exported:
        try:
            found = identify(os.stat(f"{root}/{path}"))
            if found != identity and (*found[:4], _ANY) != identity:
                yield path, "was changed"
        except OSError:
            yield path, "is missing"


def export(
    root: Path, store: Store, action: Action, result: ActionResult
) -> tuple[tuple[str, Identity], ...]:
    """Copy or link the outputs to their paths in the checkout; return their identities.

    Raises: OSError if one cannot be written; CorruptBlob if the store's is corrupt.
    """
    outputs, exported = dict(result.outputs), []
    for name, path in zip(action.outputs, action.exported_to, strict=False):
        target, digest = f"{root}/{path}", outputs[name]
        if digest.size_bytes >= LINKED_BYTES and _link(root, store, digest, target):
            exported.append((path, (*identify(os.stat(target))[:4], _ANY)))
            continue
        try:
            is_copy = store.digests.of_file(target) == digest
        except OSError:
            is_copy = False
        if not is_copy:
            with _temporary(root, target) as temporary:
                store.copy_to(digest, target, temporary)
        exported.append((path, identify(os.stat(target))))
    return tuple(exported)


def _link(root: Path, store: Store, digest: Digest, target: str) -> bool:
    """Make the path a name of the store's blob; return whether it is one.

    Raises: CorruptBlob if the blob is corrupt, and was deleted.
    """
    with contextlib.suppress(OSError):
        if os.path.samefile(store.blob(digest), target):
            return True
    with _temporary(root, target) as temporary:
        if not store.link_to(digest, target, f"{temporary}{_LINK}"):
            return False
        atomic_files.unlink(temporary)
    return True


def remove_stale(root: Path, before: TaskRecord, action: Action) -> None:
    """Remove files that the task's record names and the action no longer exports.

    Call it before the record is deleted: only the record names such a file's task.
    """
    for path, _ in before.exported:
        if path not in action.exported_to:
            (root / path).unlink(missing_ok=True)


def sweep(root: Path) -> None:
    """Remove the half-written files of killed builds."""
    with contextlib.suppress(OSError):
        for path in _folder(root).iterdir():
            if path.suffix == _LINK:
                continue
            with (
                contextlib.suppress(FileNotFoundError, BlockingIOError),
                open(path, "rb") as file,
            ):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_named(file.fileno(), str(path)):
                    # The link first: without the file, nothing would find it.
                    Path(f"{path}{_LINK}").unlink(missing_ok=True)
                    path.unlink()


@contextlib.contextmanager
def _temporary(root: Path, target: str) -> Iterator[str]:
    """Yield a path on the target's disk, locked by this process.

    The path is not next to the target: what a killed build leaves there would look like
    a part of the bundle.
    """
    folder, parent = str(_folder(root)), os.path.dirname(target)
    try:
        is_one_disk = os.stat(folder).st_dev == os.stat(parent).st_dev
    except FileNotFoundError:
        os.makedirs(folder, exist_ok=True)
        os.makedirs(parent, exist_ok=True)
        is_one_disk = os.stat(folder).st_dev == os.stat(parent).st_dev
    name = hashlib.sha256(os.fsencode(target)).hexdigest()[:16]
    path = f"{folder if is_one_disk else parent}/.{name}"
    held = False
    while not held:
        handle = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            held = _is_named(handle, path)
            if held:
                yield path
        finally:
            os.close(handle)


def _is_named(handle: int, path: str) -> bool:
    """Return whether the open file still has that name."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _folder(root: Path) -> Path:
    return root / "build/.ingot/tmp"
