"""A folder as shared cache: a network disk, or the folder of Bazel's --disk_cache."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingot.edges import files
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
            folder = os.path.dirname(target)
            if not os.path.isdir(folder):
                os.makedirs(folder, exist_ok=True)
            name = f"{folder}/.{os.urandom(8).hex()}"
            try:
                files.copy(str(path), name)
                os.chmod(name, 0o644)
                os.replace(name, target)
            except BaseException:
                files.unlink(name)
                raise
        except OSError as error:
            raise CacheFailure(f"cannot write: {error.strerror}") from error

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs that have no file."""
        return {item for item in digests if not os.path.exists(self._path("cas", item))}

    def _path(self, kind: Kind, digest: Digest) -> str:
        return f"{self._root}/{kind}/{digest.hash[:2]}/{digest.hash}"


def _read(path: str) -> Iterator[bytes]:
    try:
        yield from chunks(path)
    except OSError as error:
        raise BlobRefused(f"cannot read {path}: {error.strerror}") from error
