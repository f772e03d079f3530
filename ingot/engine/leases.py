"""Protect what this process uses of a store from garbage collection.

A lease is a line in a file under `tmp/` that the process holds locked: what the line
names is not removed while the process lives, however long that takes. In addition, the
modification time of an action result is the time of its last use, as in Bazel's disk
cache: what was not used for the longest time is removed first. Blobs have no such time,
because their times belong to the identity under which their digests are remembered.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# A result whose time was set within this is not touched again.
STAMP_S = 600.0
PREFIX = "uses-"


class Leases:
    """The leases of one process on one store."""

    def __init__(self, root: Path) -> None:
        """Start without leases."""
        self._root = root
        self._lock = threading.Lock()
        self._leased: set[str] = set()
        # Leases that end before the process does, by the thread that acquired them.
        self._blocks: dict[int, set[str]] = {}
        self._lasting: set[str] = set()
        self._file = self._gate = -1

    def acquire(self, *hashes: str) -> None:
        """Keep results and blobs with these names as long as this process lives.

        Acquire first and look afterwards: then what is there stays.

        Raises: OSError if the lease cannot be written.
        """
        with self._lock:
            block = self._blocks.get(threading.get_ident(), self._lasting)
            block.update(hashes)
            new = [name for name in hashes if name not in self._leased]
            if not new:
                return
            if self._file < 0:
                self._open()
            # Wait while another process removes files: it has already read the leases.
            fcntl.flock(self._gate, fcntl.LOCK_SH)
            try:
                os.write(self._file, "".join(f"{name}\n" for name in new).encode())
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)
            self._leased.update(new)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Release, at the end of the block, what this thread acquires in it."""
        own = threading.get_ident()
        with self._lock:
            self._blocks[own] = set()
        try:
            yield
        finally:
            with self._lock:
                del self._blocks[own]
                self._leased = self._lasting.union(*self._blocks.values())
                if self._file >= 0:
                    self._rewrite()

    def touch(self, path: str) -> None:
        """Mark the result in this file as used now."""
        # Only the order of removal depends on it, so another user's file is skipped.
        with contextlib.suppress(OSError):
            if abs(time.time() - os.stat(path).st_mtime) > STAMP_S:
                os.utime(path)

    def _rewrite(self) -> None:
        # No process reads the file under this lock, so none sees it empty.
        fcntl.flock(self._gate, fcntl.LOCK_SH)
        try:
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
            names = sorted(self._leased)
            os.write(self._file, "".join(f"{name}\n" for name in names).encode())
        finally:
            fcntl.flock(self._gate, fcntl.LOCK_UN)

    def _open(self) -> None:
        self._gate = os.open(_gate(self._root), os.O_RDWR | os.O_CREAT, 0o666)
        with open(self._root / "lock/tmp", "w") as sweeping:
            # As for scratch folders: `sweep` removes files without a lock.
            fcntl.flock(sweeping, fcntl.LOCK_SH)
            self._file, name = tempfile.mkstemp(prefix=PREFIX, dir=self._root / "tmp")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        # `sweep` removes the file of a killed process.
        atexit.register(Path(name).unlink, missing_ok=True)


@contextlib.contextmanager
def block_leases(root: Path) -> Iterator[set[str]]:
    """Yield the names that living processes have leased; block new leases meanwhile.

    Raises: OSError if the store cannot be written.
    """
    with open(_gate(root), "w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        leased: set[str] = set()
        for path in (root / "tmp").glob(f"{PREFIX}*"):
            with contextlib.suppress(FileNotFoundError), open(path) as file:
                if _is_held(file.fileno()):
                    leased.update(file.read().split())
        yield leased


def _gate(root: Path) -> Path:
    return root / "lock/remove"


def _is_held(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
