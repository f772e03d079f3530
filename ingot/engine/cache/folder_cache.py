"""Use a folder as shared cache: a network disk, or that of Bazel's --disk_cache."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from ingot.engine import atomic_files
from ingot.engine.actions import Digest
from ingot.engine.cache.backend import BlobRejected, CacheFailure, Kind
from ingot.engine.digests import chunks

# No copy of a single file takes this long.
LEFT_S = 24 * 3600.0


class FolderBackend:
    """A folder with the layout of the store."""

    def __init__(self, root: Path) -> None:
        """Remember the folder; the first upload creates it."""
        self.name = f"file://{root}"
        self._root = root
        self._incoming = f"{root}/incoming"
        self._swept = False

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the file's content; None if there is none."""
        path = self._path(kind, digest)
        try:
            # Check now: a generator would only fail at its first piece.
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
            self._make(os.path.dirname(target))
            self._make(self._incoming)
            self._sweep()
            name = f"{self._incoming}/{os.urandom(8).hex()}"
            try:
                atomic_files.copy(str(path), name)
                os.chmod(name, 0o644)
                os.replace(name, target)
            except BaseException:
                atomic_files.unlink(name)
                raise
        except OSError as error:
            raise CacheFailure(f"cannot write: {error.strerror}") from error

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs that have no file."""
        return {item for item in digests if not os.path.exists(self._path("cas", item))}

    def _sweep(self) -> None:
        """Remove, once, what killed builds of this or another machine left."""
        if self._swept:
            return
        self._swept = True
        for path in Path(self._incoming).iterdir():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > LEFT_S:
                    path.unlink()

    def _make(self, folder: str) -> None:
        """Create a folder with the permissions of its parent folder."""
        if os.path.isdir(folder):
            return
        parent = os.path.dirname(folder)
        if parent == str(self._root):
            os.makedirs(parent, exist_ok=True)
        else:
            self._make(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
            # The user's umask would keep other users out.
            os.chmod(folder, stat.S_IMODE(os.stat(parent).st_mode))

    def _path(self, kind: Kind, digest: Digest) -> str:
        return f"{self._root}/{kind}/{digest.hash[:2]}/{digest.hash}"


def _read(path: str) -> Iterator[bytes]:
    try:
        yield from chunks(path)
    except OSError as error:
        raise BlobRejected(f"cannot read {path}: {error.strerror}") from error
