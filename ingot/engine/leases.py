"""What this process uses of a store in, marks that keep it there out.

Two marks. A pin is a line in a file under `tmp/` that the process holds locked: what is
named there is not removed while the process lives, whatever the clock says. A stamp is
the modification time of an action result, set when it is used, as Bazel's disk cache
has it: what was not used for longest is removed first. Blobs get no stamp: their times
are part of the identity under which their digests are remembered.
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

# A result that was stamped within this is not stamped again.
STAMP_S = 600.0
PREFIX = "uses-"


class Leases:
    """The marks of one process on one store."""

    def __init__(self, root: Path) -> None:
        """Mark nothing yet."""
        self._root = root
        self._lock = threading.Lock()
        self._leased: set[str] = set()
        # What is let go of before the process ends, by the thread that leased it.
        self._blocks: dict[int, set[str]] = {}
        self._lasting: set[str] = set()
        self._file = self._gate = -1

    def acquire(self, *hashes: str) -> None:
        """Keep results and blobs of these names as long as this process lives.

        Whoever pins first and looks then sees what stays.

        Raises: OSError where the pin cannot be written.
        """
        with self._lock:
            block = self._blocks.get(threading.get_ident(), self._lasting)
            block.update(hashes)
            new = [name for name in hashes if name not in self._leased]
            if not new:
                return
            if self._file < 0:
                self._open()
            # Not while another process removes: it has read the pins already.
            fcntl.flock(self._gate, fcntl.LOCK_SH)
            try:
                os.write(self._file, "".join(f"{name}\n" for name in new).encode())
            finally:
                fcntl.flock(self._gate, fcntl.LOCK_UN)
            self._leased.update(new)

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Keep what this thread pins in the block until its end, no longer."""
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
        """Say that the result in this file was used now."""
        # Nothing depends on it but what is removed first: another user's file is left.
        with contextlib.suppress(OSError):
            if abs(time.time() - os.stat(path).st_mtime) > STAMP_S:
                os.utime(path)

    def _rewrite(self) -> None:
        # Nobody reads it meanwhile, so nobody sees it empty.
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
            # As for scratch folders: `sweep` removes what nobody holds.
            fcntl.flock(sweeping, fcntl.LOCK_SH)
            self._file, name = tempfile.mkstemp(prefix=PREFIX, dir=self._root / "tmp")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        # What a killed process leaves is swept.
        atexit.register(Path(name).unlink, missing_ok=True)


@contextlib.contextmanager
def block_leases(root: Path) -> Iterator[set[str]]:
    """Give the names that living processes have leased; nobody pins meanwhile.

    Raises: OSError where the store cannot be written.
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
