"""A folder as shared cache: a network disk, or the folder of Bazel's --disk_cache."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingot.edges.digests import chunks
from ingot.edges.shared.remote import BlobRefused, CacheFailure, Kind
from ingot.values import Digest


class FolderRemote:
    """A folder laid out as the store is."""

    def __init__(self, root: Path) -> None:
        """Keep the place; it is made with the first file that is put there."""
        self.name = f"file://{root}"
        self._root = root

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the file's content; None where there is none."""
        path = self._path(kind, digest)
        try:
            # Asked here: a generator would fail at its first piece only.
            os.stat(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CacheFailure(error.strerror) from error
        return _read(path)

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Copy the file there, under a temporary name first."""
        target = self._path(kind, digest)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".", dir=target.parent)
            os.close(handle)
            try:
                shutil.copyfile(path, name)
                os.chmod(name, 0o644)
                os.replace(name, target)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
        except OSError as error:
            raise CacheFailure(f"cannot write: {error.strerror}") from error

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs that have no file."""
        return {item for item in digests if not self._path("cas", item).exists()}

    def _path(self, kind: Kind, digest: Digest) -> Path:
        return self._root / kind / digest.hash[:2] / digest.hash


def _read(path: Path) -> Iterator[bytes]:
    try:
        yield from chunks(path)
    except OSError as error:
        raise BlobRefused(f"cannot read {path}: {error.strerror}") from error
