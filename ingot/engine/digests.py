"""Hash files, each content once.

A database in the store remembers each digest under the file's identity (device, inode,
size, mtime, ctime), so that a second checkout that reads the same weights hashes
nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ingot.engine import atomic_files
from ingot.engine.actions import Digest

CHUNK_BYTES = 1 << 20

# If a file changes again within one tick of the kernel's clock (at most 10 ms at
# HZ=100), its times may stay the same; so a file that is younger than this when it is
# looked at is not remembered.
SETTLED_NS = 20_000_000

Identity = tuple[int, int, int, int, int]


class Digests:
    """Digests and other facts of files, remembered across processes."""

    def __init__(self, database: Path) -> None:
        """Open the database; if it cannot be written, remember in memory only."""
        self._lock = threading.Lock()
        self._memory: dict[tuple[Identity, str], str] = {}
        self._connection = _open(database)

    def of_file(self, path: Path | str) -> Digest:
        """Return the digest of the file's content.

        Raises: OSError if it cannot be read.
        """
        found, identity = self._look_up(path, "sha256", lambda p: hash_file(p).hash)
        return Digest(found, identity[2])

    def fact(
        self, path: Path | str, purpose: str, compute: Callable[[Path | str], str]
    ) -> str:
        """Return `compute(path)`, computed once for each content."""
        return self._look_up(path, purpose, compute)[0]

    def _look_up(
        self, path: Path | str, purpose: str, compute: Callable[[Path | str], str]
    ) -> tuple[str, Identity]:
        """Return the value that is remembered, or computed now, and the identity."""
        asked_ns = time.time_ns()
        identity = identify(os.stat(path))
        known = self._memory.get((identity, purpose)) or self._recall(identity, purpose)
        if known is None:
            if identity[2] > atomic_files.SMALL_BYTES:
                _sync(path)
                asked_ns, identity = time.time_ns(), identify(os.stat(path))
            known = compute(path)
            # If the file was written meanwhile, the value may be of neither version.
            # Compare with the time before: reading takes seconds.
            if identify(os.stat(path)) == identity and is_settled(identity, asked_ns):
                self._remember(identity, purpose, known)
        return known, identity

    def _remember(self, identity: Identity, purpose: str, value: str) -> None:
        self._memory[identity, purpose] = value
        # Losing an entry costs time, never correctness.
        with self._lock, contextlib.suppress(sqlite3.DatabaseError):
            if self._connection is not None:
                self._connection.execute(
                    "INSERT OR REPLACE INTO fact VALUES (?, ?, ?)",
                    (repr(identity), purpose, _sealed(identity, purpose, value)),
                )

    def forget(self, path: Path | str) -> None:
        """Read the file again when its digest is asked for next."""
        identity = identify(os.stat(path))
        self._memory.pop((identity, "sha256"), None)
        with self._lock, contextlib.suppress(sqlite3.DatabaseError):
            if self._connection is not None:
                self._connection.execute(
                    "DELETE FROM fact WHERE identity = ? AND purpose = ?",
                    (repr(identity), "sha256"),
                )

    def trim(self, most: int = 200_000) -> None:
        """Delete all entries if there are more than `most` (some 30 MB).

        Most of them then belong to files that no longer exist; the others are computed
        again.
        """
        with self._lock, contextlib.suppress(sqlite3.DatabaseError):
            if self._connection is not None:
                count = self._connection.execute("SELECT count(*) FROM fact").fetchone()
                if count[0] > most:
                    self._connection.execute("DELETE FROM fact")
                    self._connection.execute("VACUUM")

    def _recall(self, identity: Identity, purpose: str) -> str | None:
        if self._connection is None:
            return None
        with self._lock, contextlib.suppress(sqlite3.DatabaseError):
            row = self._connection.execute(
                "SELECT value FROM fact WHERE identity = ? AND purpose = ?",
                (repr(identity), purpose),
            ).fetchone()
            value = str(row[0]).rpartition(" ")[0] if row is not None else ""
            # A flipped bit must not pass as the digest of a file.
            if value and row[0] == _sealed(identity, purpose, value):
                self._memory[identity, purpose] = value
                return value
        return None


def _sealed(identity: Identity, purpose: str, value: str) -> str:
    """Return the value with a checksum of the whole row."""
    return f"{value} {zlib.crc32(repr((identity, purpose, value)).encode()):08x}"


def identify(stat: os.stat_result) -> Identity:
    """Return what changes with a file's content, without reading it."""
    return (
        stat.st_dev,
        stat.st_ino,
        stat.st_size,
        stat.st_mtime_ns,
        stat.st_ctime_ns,
    )


def is_settled(identity: Identity, asked_ns: int) -> bool:
    """Return whether a later change of the file would change this identity.

    Every change sets the file's ctime to this machine's clock. Its mtime may come from
    another machine's clock, years ahead: archives and rsync preserve it.
    """
    return asked_ns - identity[4] >= SETTLED_NS


def hash_file(path: Path | str) -> Digest:
    """Return the digest of the file's content, read in pieces."""
    hasher = hashlib.sha256()
    size = 0
    for chunk in chunks(path):
        hasher.update(chunk)
        size += len(chunk)
    return Digest(hasher.hexdigest(), size)


def copy_file(source: Path | str, target: Path | str) -> Digest:
    """Copy the content; return the digest of what was copied."""
    hasher = hashlib.sha256()
    size = 0
    with open(target, "wb", buffering=0) as file:
        for chunk in chunks(source):
            hasher.update(chunk)
            atomic_files.write(file, chunk)
            size += len(chunk)
    return Digest(hasher.hexdigest(), size)


def _sync(path: Path | str) -> None:
    """Sync the file, so that a program that has it mapped cannot change it unnoticed.

    A write to a mapped page sets the file's ctime only if the page was clean.
    """
    # A disk that cannot sync keeps no page clean either: it is in memory.
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def chunks(path: Path | str) -> Iterator[bytes]:
    """Yield the file's content in pieces of at most CHUNK_BYTES."""
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


def _open(database: Path) -> sqlite3.Connection | None:
    """Return the database, recreated if corrupt; None if it cannot be opened."""
    for _ in range(2):
        try:
            connection = sqlite3.connect(
                database, timeout=30, isolation_level=None, check_same_thread=False
            )
            connection.execute("PRAGMA journal_mode=WAL")
            # A crash may lose the last rows, which are then computed again.
            connection.execute("PRAGMA synchronous=OFF")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS fact"
                " (identity TEXT, purpose TEXT, value TEXT,"
                " PRIMARY KEY (identity, purpose)) WITHOUT ROWID"
            )
            return connection
        except sqlite3.OperationalError:
            return None
        except sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{database}{suffix}").unlink(missing_ok=True)
    return None
