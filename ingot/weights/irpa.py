"""Write and read parameter archives with iree.runtime.

Importing iree.runtime takes 0.2 s, so it waits until it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.errors import IngotError


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """The content of one parameter: a range of a file."""

    key: str
    path: Path
    offset: int  # bytes
    size_bytes: int
    metadata: str  # from which iree.runtime reads shape and type


@dataclass(frozen=True, slots=True)
class SplatSource:
    """The content of one parameter: the bytes of a value, repeated."""

    key: str
    pattern: bytes
    size_bytes: int
    metadata: str


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """One parameter in an archive, and the position of its bytes."""

    key: str
    offset: int  # bytes from the start of the file
    size_bytes: int
    metadata: str


def write_archive(
    path: Path, sources: Iterable[ArchiveSource]
) -> tuple[ArchiveEntry, ...]:
    """Write an irpa in the given order; return the positions of the parameters.

    IREE copies from file to file in blocks, so memory does not grow with the
    parameters.

    Raises: IngotError if a source is truncated or the disk is full.
    """
    from iree.runtime import FileHandle, ParameterIndex

    index = ParameterIndex()
    handles: dict[Path, Any] = {}
    with ExitStack() as stack:
        try:
            for item in sources:
                if item.path not in handles:
                    file = stack.enter_context(item.path.open("rb"))
                    handles[item.path] = FileHandle.wrap_fd(file.fileno())
                index.add_from_file_handle(
                    item.key,
                    handles[item.path],
                    item.size_bytes,
                    item.offset,
                    metadata=item.metadata,
                )
            written = index.create_archive_file(str(path))
        except (OSError, ValueError, IndexError, RuntimeError) as error:
            raise IngotError(f"{path}: cannot be written; {error}") from error
    return tuple(_entry(key, entry) for key, entry in written.items())


def write_splats(path: Path, splats: Iterable[SplatSource]) -> None:
    """Write an irpa of parameters that repeat one value and have no content.

    Raises: IngotError if the disk is full.
    """
    from iree.runtime import ParameterIndex

    index = ParameterIndex()
    try:
        for item in splats:
            index.add_splat(
                item.key, item.pattern, item.size_bytes, metadata=item.metadata
            )
        index.create_archive_file(str(path))
    except (OSError, ValueError, RuntimeError) as error:
        raise IngotError(f"{path}: cannot be written; {error}") from error


def read_archive(path: Path) -> tuple[ArchiveEntry, ...]:
    """Return the parameters of an irpa, in its order.

    Raises: IngotError for a file that is not an archive, or an incomplete one.
    """
    from iree.runtime import ParameterIndex

    index = ParameterIndex()
    try:
        index.load(str(path))
        # A name or a note that is no text is as wrong as a file of another format.
        return tuple([_entry(key, entry) for key, entry in index.items()])
    except (OSError, ValueError, IndexError, RuntimeError) as error:
        raise IngotError(
            f"{path}: not a parameter archive; {error}", "bake it again"
        ) from error


def _entry(key: str, entry: Any) -> ArchiveEntry:
    if not entry.is_file:
        raise IngotError(
            f"parameter '{key}': expected stored bytes, found a splat",
            "the archive was not written by the bake",
        )
    _, offset = entry.file_storage
    return ArchiveEntry(key, offset, entry.length, entry.metadata.decode())
