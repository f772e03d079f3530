"""List what a store contains: every result and blob with its size and last use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ingot.engine.action_results import HASH, decode_result
from ingot.engine.actions import ActionResult
from ingot.engine.protobuf_wire import CorruptMessage


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of the store."""

    size_bytes: int
    used_s: float  # mtime: when a result was last used, when a blob was written


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result and the blobs that it needs: its outputs, its log."""

    file: StoredFile
    result: ActionResult
    blobs: frozenset[str]


@dataclass(frozen=True, slots=True)
class StoreSurvey:
    """Everything in a store, by hash."""

    entries: dict[str, StoredResult]
    blobs: dict[str, StoredFile]

    @property
    def size_bytes(self) -> int:
        """Return the size of all files."""
        own = sum(entry.file.size_bytes for entry in self.entries.values())
        return own + sum(blob.size_bytes for blob in self.blobs.values())


def survey(root: Path, known: StoreSurvey | None = None) -> StoreSurvey:
    """Return what is in the store; results that `known` has are not read again."""
    blobs = dict(_files(root / "cas"))
    entries = {}
    before = known.entries if known else {}
    for key, file in _files(root / "ac"):
        entry = before.get(key)
        if entry is not None and entry.file.size_bytes == file.size_bytes:
            entries[key] = StoredResult(file, entry.result, entry.blobs)
            continue
        with contextlib.suppress(OSError, CorruptMessage):
            content = (root / "ac" / key[:2] / key).read_bytes()
            result = decode_result(content)
            blobs_of = frozenset(digest.hash for digest in result.blobs())
            entries[key] = StoredResult(file, result, blobs_of)
    return StoreSurvey(entries, blobs)


def size_bytes(root: Path) -> int:
    """Return the size of all results and blobs without reading them."""
    kinds = (root / "ac", root / "cas")
    return sum(file.size_bytes for kind in kinds for _, file in _files(kind))


def latest_results(root: Path) -> dict[str, tuple[float, str]]:
    """Return, for each task, when its newest result was last used, and its key."""
    last: dict[str, tuple[float, str]] = {}
    for key, file in _files(root / "ac"):
        with contextlib.suppress(OSError, CorruptMessage):
            content = (root / "ac" / key[:2] / key).read_bytes()
            task = decode_result(content).task
            if task:
                last[task] = max(last.get(task, (0.0, "")), (file.used_s, key))
    return last


def read_result(root: Path, key: str) -> ActionResult:
    """Return the result under that key, whether or not its blobs are there.

    Raises: OSError if there is no result; CorruptMessage if it cannot be decoded.
    """
    return decode_result((root / "ac" / key[:2] / key).read_bytes())


def blob_path(root: Path, name: str) -> Path:
    """Return the path of the blob with that hash."""
    return root / "cas" / name[:2] / name


def _files(folder: Path) -> Iterator[tuple[str, StoredFile]]:
    for part in _scan(folder):
        for item in _scan(part.path):
            with contextlib.suppress(FileNotFoundError):
                stat = item.stat()
                if HASH.fullmatch(item.name):
                    yield item.name, StoredFile(stat.st_size, stat.st_mtime)


def _scan(folder: Path | str) -> list[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return sorted(os.scandir(folder), key=lambda item: item.name)
    return []
