"""Files of the store as they are finished, named, copied and removed."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from errno import EEXIST, EISDIR, ENOTDIR, ENOTEMPTY
from pathlib import Path

from ingot.errors import IngotError

# A sync costs as much as reading so much; what is no larger is read, not synced.
SMALL_BYTES = 1 << 16


def finish(handle: int, size_bytes: int) -> None:
    """Make sure of a large file's content; forbid writing."""
    if size_bytes > SMALL_BYTES:
        os.fsync(handle)
    os.fchmod(handle, 0o444)


def write(file: io.FileIO, content: bytes) -> None:
    """Write all of it to a file without a buffer."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def read(path: str, size_bytes: int) -> bytes:
    """Return the content of a file that is said to be small, all of it."""
    # Half of the calls that `open` makes of the system.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(handle, size_bytes + 1)
        while more := os.read(handle, SMALL_BYTES):
            content += more
        return content
    finally:
        os.close(handle)


def rename(temporary: str | Path, path: str) -> None:
    """Give a file another name; make its folder."""
    try:
        os.replace(temporary, path)
    except FileNotFoundError:
        # The first of its folder.
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(temporary, path)


def unlink(path: str | Path) -> None:
    """Remove a file that another process may have removed."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(path: str) -> None:
    """Remove a folder and what is in it, as far as that can be."""
    try:
        # Most hold a few files; `rmtree` makes three times the calls for them.
        for name in os.listdir(path):
            os.unlink(f"{path}/{name}")
        os.rmdir(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def copy(source: str, target: str | Path) -> None:
    """Copy content, sharing blocks where the file system can."""
    with (
        open(source, "rb", buffering=0) as reader,
        open(target, "wb", buffering=0) as writer,
    ):
        remaining = os.fstat(reader.fileno()).st_size
        if remaining <= SMALL_BYTES:
            write(writer, reader.read())
            return
        try:
            while remaining:
                done = os.copy_file_range(reader.fileno(), writer.fileno(), remaining)
                if done == 0:
                    break
                remaining -= done
        except OSError as error:
            if error.errno not in _CANNOT_COPY_RANGE:
                raise
        # Some file systems copy nothing, and say no more than that.
        if remaining:
            reader.seek(0)
            writer.seek(0)
            shutil.copyfileobj(reader, writer, 1 << 20)


# EXDEV, EINVAL, ENOSYS, EOPNOTSUPP: this pair of files cannot be copied inside the
# kernel.
_CANNOT_COPY_RANGE = (18, 22, 38, 95)


def refusal(place: Path | str, error: OSError, is_store: bool = True) -> IngotError:
    """Return what is said where a store, or a copy, cannot be written."""
    reason = error.strerror or str(error)
    elsewhere = ", or set INGOT_CACHE to another folder" if is_store else ""
    return IngotError(
        f"{'store ' if is_store else ''}{place}: cannot write: {reason}",
        f"{remedy(error, 'there')}{elsewhere}; finished actions are kept",
    )


def remedy(error: OSError, where: str) -> str:
    """Return what mends a place that cannot be written."""
    if error.errno in (ENOTDIR, EEXIST):
        return f"remove the file that is {where} in place of a folder"
    if error.errno in (EISDIR, ENOTEMPTY):
        return f"remove the folder that is {where} in place of a file"
    return f"make room or permission {where}"


class DiskErrors:
    """Turn a full or read-only disk into an error that says what to do."""

    # A generator costs as much as many a call that it guards.
    def __init__(self, place: Path | str, is_store: bool = True) -> None:
        """Guard what is written there, into a store or as a copy."""
        self._place, self._is_store = place, is_store

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        """Raise what is to be said of the disk: IngotError."""
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise refusal(self._place, error, self._is_store) from error
