"""What each task of this checkout last ran as and made: one row a task.

Committed as each task ends: doit's own databases are written when it exits, and lose
everything when it is killed.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ingot.edges.digests import Identity
from ingot.errors import IngotError
from ingot.values import BoundAction, Digest

# Bumped when the row's meaning changes: older rows are then forgotten, nothing is
# misread.
SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Record:
    """A finished action: what it was, what it made, how its shown files were left."""

    bound: BoundAction
    key: str  # hash of the action, under which the store has its result
    outputs: tuple[tuple[str, Digest], ...]
    shown: tuple[tuple[str, Identity], ...]  # path in the checkout, its identity
    log: Digest | None  # what the command printed
    source: str  # "ran" or "restored"
    wall_ms: float


class Records:
    """The records of one checkout, safe for several threads and processes."""

    def __init__(self, path: Path) -> None:
        """Open the database, made anew where it is damaged.

        Raises: IngotError where the folder cannot be written.
        """
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = _open(path)
            rows = self._connection.execute("SELECT task, record FROM record")
            self._records = {task: _decode(text) for task, text in rows.fetchall()}
        except (OSError, sqlite3.OperationalError) as error:
            raise IngotError(
                f"records {path}: cannot be written: {error}",
                "make room or permission in the build folder",
            ) from error

    def get(self, task: str) -> Record | None:
        """Return the task's record."""
        return self._records.get(task)

    def put(self, task: str, record: Record) -> None:
        """Keep the task's record, at once."""
        self._records[task] = record
        with self._lock:
            self._connection.execute(
                "INSERT OR REPLACE INTO record VALUES (?, ?, ?)",
                (task, json.dumps(asdict(record)), time.time()),
            )

    def forget(self, task: str) -> None:
        """Remove the task's record."""
        if self._records.pop(task, None) is not None:
            with self._lock:
                self._connection.execute("DELETE FROM record WHERE task = ?", (task,))


def _open(path: Path) -> sqlite3.Connection:
    try:
        return _connect(path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=30, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA journal_mode=WAL")
    if connection.execute("PRAGMA user_version").fetchone()[0] != SCHEMA:
        connection.execute("DROP TABLE IF EXISTS record")
        connection.execute(f"PRAGMA user_version={SCHEMA}")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS record"
        " (task TEXT PRIMARY KEY, record TEXT, at REAL)"
    )
    return connection


def _decode(text: str) -> Record:
    value = json.loads(text)
    bound = value["bound"]
    return Record(
        bound=BoundAction(
            argv=tuple(bound["argv"]),
            env=_pairs(bound["env"]),
            inputs=_digests(bound["inputs"]),
            outputs=tuple(bound["outputs"]),
            platform=_pairs(bound["platform"]),
        ),
        key=value["key"],
        outputs=_digests(value["outputs"]),
        shown=tuple((path, tuple(identity)) for path, identity in value["shown"]),
        log=Digest(**value["log"]) if value["log"] else None,
        source=value["source"],
        wall_ms=value["wall_ms"],
    )


def _pairs(value: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, item) for name, item in value)


def _digests(value: Any) -> tuple[tuple[str, Digest], ...]:
    return tuple((path, Digest(**item)) for path, item in value)
