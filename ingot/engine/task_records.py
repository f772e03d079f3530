"""Record the last run of each task of this checkout: its action and its outputs.

A record is committed when its task ends: doit writes its own databases when it exits,
and loses everything when it is killed.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from ingot.engine.actions import Digest, ResolvedAction
from ingot.engine.digests import Identity
from ingot.errors import IngotError

# Bumped when the meaning of a row changes: older rows are then ignored.
SCHEMA = 5

# SQLite's codes for a corrupt database: ERROR (another table), CORRUPT, NOTADB. All
# other codes are about the disk, the memory or another build; then deleting would do
# harm.
DAMAGE = frozenset({1, 11, 26})


class TaskRecord(NamedTuple):
    """A finished action: what it was, what it produced, its files in the checkout."""

    resolved: ResolvedAction
    key: str  # hash of the action; the store has its result under it
    outputs: tuple[tuple[str, Digest], ...]
    exported: tuple[tuple[str, Identity], ...]  # path in the checkout, its identity
    log: Digest | None  # what the command printed
    source: str  # "ran", "restored" or "fetched"
    wall_ms: float
    trust: str = ""  # the keys that counted then: `Trust.state`


class Records:
    """The records of one checkout; safe for several threads and processes."""

    def __init__(self, path: Path) -> None:
        """Open the database; recreate it if it is corrupt.

        Raises: IngotError if the folder cannot be written.
        """
        self._lock = threading.Lock()
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection, self._records = _open(path)
        except (OSError, sqlite3.Error) as error:
            raise self._unwritable(error) from error

    def get(self, task: str) -> TaskRecord | None:
        """Return the task's record."""
        return self._records.get(task)

    def digests(self) -> list[Digest]:
        """Return the keys of all recorded results, and their outputs."""
        keys = [Digest(record.key, 0) for record in self._records.values()]
        outputs = [d for record in self._records.values() for _, d in record.outputs]
        return keys + outputs

    def put(self, task: str, record: TaskRecord) -> None:
        """Store the task's record, at once."""
        self._records[task] = record
        self._write(
            "INSERT OR REPLACE INTO record VALUES (?, ?, ?)", *_row(task, record)
        )

    def forget(self, task: str) -> None:
        """Delete the task's record."""
        if self._records.pop(task, None) is not None:
            self._write("DELETE FROM record WHERE task = ?", task)

    def _write(self, statement: str, *values: Any) -> None:
        """Change the database; recreate it from memory if it is corrupt.

        Raises: IngotError if the disk is full.
        """
        try:
            with self._lock:
                try:
                    self._connection.execute(statement, values)
                except sqlite3.Error as error:
                    _check_is_corrupt(error)
                    self._connection.close()
                    _remove(self._path)
                    self._connection = _connect(self._path)
                    self._connection.executemany(
                        "INSERT INTO record VALUES (?, ?, ?)",
                        [_row(task, record) for task, record in self._records.items()],
                    )
        except sqlite3.Error as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: Exception) -> IngotError:
        return IngotError(
            f"records {self._path}: cannot be written: {error}",
            "free disk space or fix the permissions in the build folder",
        )


def _open(path: Path) -> tuple[sqlite3.Connection, dict[str, TaskRecord]]:
    """Return the database and its records; recreate a corrupt one."""
    try:
        connection = _connect(path)
        return connection, _load(connection)
    except sqlite3.Error as error:
        _check_is_corrupt(error)
        _remove(path)
        connection = _connect(path)
        return connection, _load(connection)


def _check_is_corrupt(error: sqlite3.Error) -> None:
    """Raise the error again unless it says that the database is corrupt."""
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in DAMAGE:
        raise error


def _load(connection: sqlite3.Connection) -> dict[str, TaskRecord]:
    """Return the rows whose checksums are right."""
    rows = connection.execute("SELECT task, record FROM record").fetchall()
    records = {}
    for task, text in rows:
        seal, _, content = text.partition(" ")
        if seal == _seal(task, content):
            records[task] = _decode(content)
    return records


def _row(task: str, record: TaskRecord) -> tuple[str, str, float]:
    content = _encode(record)
    return task, f"{_seal(task, content)} {content}", time.time()


def _seal(task: str, content: str) -> str:
    """Return a checksum: a flipped bit must not pass as what an action produced."""
    return f"{zlib.crc32(f'{task} {content}'.encode()):08x}"


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=30, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = lambda text: text.decode("utf-8", errors="replace")
    connection.execute("PRAGMA journal_mode=WAL")
    # A kill loses nothing; a power cut may lose rows, whose results are then restored.
    connection.execute("PRAGMA synchronous=NORMAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA:
        connection.execute("DROP TABLE IF EXISTS record")
        connection.execute(f"PRAGMA user_version={SCHEMA}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS record"
        # One tree: a separate index would be two more pages to write for each row.
        " (task TEXT PRIMARY KEY, record TEXT, at REAL) WITHOUT ROWID"
    )
    return connection


def _encode(record: TaskRecord) -> str:
    """Return the record as JSON arrays: a no-op build decodes all of them."""
    resolved, log = record.resolved, record.log
    value = (
        (
            resolved.argv,
            resolved.env,
            _plain(resolved.inputs),
            resolved.outputs,
            resolved.platform,
        ),
        record.key,
        _plain(record.outputs),
        record.exported,
        (log.hash, log.size_bytes) if log else None,
        record.source,
        record.wall_ms,
        record.trust,
    )
    return json.dumps(value)


def _decode(text: str) -> TaskRecord:
    resolved, key, outputs, exported, log, source, wall_ms, trust = json.loads(text)
    argv, env, inputs, names, platform = resolved
    return TaskRecord(
        ResolvedAction(
            tuple(argv), _pairs(env), _digests(inputs), tuple(names), _pairs(platform)
        ),
        key,
        _digests(outputs),
        tuple([(path, tuple(identity)) for path, identity in exported]),
        Digest(*log) if log else None,
        source,
        wall_ms,
        trust,
    )


def _plain(value: tuple[tuple[str, Digest], ...]) -> list[tuple[str, str, int]]:
    return [(path, digest.hash, digest.size_bytes) for path, digest in value]


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple([(name, item) for name, item in value])


def _digests(value: Any) -> tuple[tuple[str, Digest], ...]:
    return tuple([(path, Digest(name, size)) for path, name, size in value])
