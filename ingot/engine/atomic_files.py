"""Write, rename, copy and remove files so that a kill leaves only complete ones."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from errno import EEXIST, EISDIR, ENOTDIR, ENOTEMPTY
from pathlib import Path

from ingot.errors import IngotError

# Syncing costs as much as reading this much: smaller files are read again, not synced.
SMALL_BYTES = 1 << 16


def finish(handle: int, size_bytes: int) -> None:
    """Sync a large file to disk; make it read-only."""
    if size_bytes > SMALL_BYTES:
        os.fsync(handle)
    os.fchmod(handle, 0o444)


def write(file: io.FileIO, content: bytes) -> None:
    """Write all of the content to an unbuffered file."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def read(path: str, size_bytes: int) -> bytes:
    """Return the whole content of a file that is expected to be small."""
    # This makes half as many system calls as `open`.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(handle, size_bytes + 1)
        while more := os.read(handle, SMALL_BYTES):
            content += more
        return content
    finally:
        os.close(handle)


def rename(temporary: str | Path, path: str) -> None:
    """Rename a file; create its new folder if necessary."""
    try:
        os.replace(temporary, path)
    except FileNotFoundError:
        # It is the first file of its folder.
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.replace(temporary, path)


def unlink(path: str | Path) -> None:
    """Remove a file that another process may have removed already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_folder(path: str) -> None:
    """Remove a folder and its content, as far as possible."""
    try:
        # Most folders have few files; `rmtree` makes three times as many calls for
        # them.
        for name in os.listdir(path):
            os.unlink(f"{path}/{name}")
        os.rmdir(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def copy(source: str, target: str | Path) -> None:
    """Copy the content, sharing blocks if the file system can."""
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
        # Some file systems copy nothing and report no error.
        if remaining:
            reader.seek(0)
            writer.seek(0)
            shutil.copyfileobj(reader, writer, 1 << 20)


# EXDEV, EINVAL, ENOSYS, EOPNOTSUPP: the kernel cannot copy between these two files.
_CANNOT_COPY_RANGE = (18, 22, 38, 95)


def write_error(path: Path | str, error: OSError, is_store: bool = True) -> IngotError:
    """Return the error for a store, or a copy, that cannot be written."""
    reason = error.strerror or str(error)
    elsewhere = ", or set INGOT_CACHE to another folder" if is_store else ""
    return IngotError(
        f"{'store ' if is_store else ''}{path}: cannot write: {reason}",
        f"{remedy(error, 'there')}{elsewhere}; finished actions are cached",
    )


def remedy(error: OSError, folder: str) -> str:
    """Return what to do about a path that cannot be written."""
    if error.errno in (ENOTDIR, EEXIST):
        return f"remove the file that is {folder} in place of a folder"
    if error.errno in (EISDIR, ENOTEMPTY):
        return f"remove the folder that is {folder} in place of a file"
    return f"free disk space or fix the permissions {folder}"


class DiskErrors:
    """Turns an OSError into an IngotError that says what to do about the disk."""

    # A class, because a generator costs as much as many calls that it guards.
    def __init__(self, path: Path | str, is_store: bool = True) -> None:
        """Guard writes to this path: a store, or a copy in a checkout."""
        self._path, self._is_store = path, is_store

    def __enter__(self) -> None:
        """Start the guarded block."""

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        """Raise IngotError for a disk that is full or read-only."""
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise write_error(self._path, error, self._is_store) from error
