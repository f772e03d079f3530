"""The content-addressed store: action results by key, blobs by digest.

Laid out as Bazel's disk cache (`ac/xx/<hash>`, `cas/xx/<hash>`), so that Bazel can
share the folder. Everything is written under `tmp/`, synced, and renamed: a killed
build leaves nothing that a later one trusts. A blob is verified when it is read; a
damaged one is dropped.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from ingot.edges import results
from ingot.edges.digests import Digests, hash_file
from ingot.edges.uses import Uses
from ingot.errors import IngotError
from ingot.values import ActionResult, Digest

# Locks are shared out over this many files, so that the folder stays small.
N_LOCKS = 4096


class Store:
    """A folder of blobs and action results; safe for several processes at once."""

    def __init__(self, root: Path, warn: Callable[[str], None]) -> None:
        """Open the store, making its folders; `warn` is told of damage that was mended.

        Raises: IngotError where the folder cannot be made or written.
        """
        self.root = root
        self._warn = warn
        try:
            for name in ("ac", "cas", "tmp", "lock"):
                (root / name).mkdir(parents=True, exist_ok=True)
            # Tried, not asked: only a write tells a read-only disk from permissions.
            tempfile.TemporaryFile(dir=root / "tmp").close()
        except OSError as error:
            raise _store_error(root, error) from error
        self.digests = Digests(root / "digests.sqlite")
        self._uses = Uses(root)

    def action(self, key: Digest) -> ActionResult | None:
        """Return the result kept under the key, if all of it is there and undamaged."""
        path = self._path("ac", key.hash)
        self.use(key.hash)
        try:
            result = results.from_bytes(path.read_bytes())
        except FileNotFoundError:
            return None
        except (results.Damaged, OSError) as error:
            self._warn(f"dropped a damaged action result, {path}: {error}")
            path.unlink(missing_ok=True)
            return None
        # Nobody here keeps a failure; another program may.
        if result.exit_code != 0 or not result.outputs:
            return None
        if not all(self.holds(blob) for blob in result.blobs()):
            return None
        return result

    def put_action(self, key: Digest, result: ActionResult) -> None:
        """Keep the result under the key; its blobs must be in the store already."""
        self._put(results.to_bytes(result), self._path("ac", key.hash))

    def use(self, key: str, *blobs: Digest) -> None:
        """Keep the result of that key and the blobs while this process lives.

        The result counts as used now; so call it before asking whether they are there.

        Raises: IngotError where the disk is full.
        """
        with _disk_errors(self.root):
            self._uses.pin(key, *(digest.hash for digest in blobs))
        self._uses.stamp(self._path("ac", key))

    def pin(self, digest: Digest) -> None:
        """Keep the blob, there already or soon, while this process lives.

        Raises: IngotError where the disk is full.
        """
        self._pin(digest)

    def using_meanwhile(self) -> AbstractContextManager[None]:
        """Let go, when the block ends, of what this thread has used in it."""
        return self._uses.meanwhile()

    def holds(self, digest: Digest) -> bool:
        """Return whether the blob is there and whole; drop it where it is not."""
        path = self._path("cas", digest.hash)
        try:
            found = self.digests.of_file(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cannot read {path}: {error}")
            return False
        if found.hash == digest.hash:
            # Another size is the damage of who asks: the content is what it says.
            return found == digest
        self._warn(f"dropped a damaged blob, {path}: its content is {found}")
        path.unlink(missing_ok=True)
        return False

    def blob(self, digest: Digest) -> Path:
        """Return where the blob is; whoever reads it must not write it."""
        return self._path("cas", digest.hash)

    def put_bytes(self, content: bytes) -> Digest:
        """Keep the content as a blob."""
        digest = Digest(hashlib.sha256(content).hexdigest(), len(content))
        self._pin(digest)
        if not self.holds(digest):
            self._put(content, self._path("cas", digest.hash))
        return digest

    def take_file(self, path: Path) -> Digest:
        """Move a file that nobody else holds into the store as a blob."""
        digest = hash_file(path)
        self._pin(digest)
        if not self.holds(digest):
            self._publish(path, self._path("cas", digest.hash))
        return digest

    def copy_to(self, digest: Digest, path: Path, temporary: Path) -> None:
        """Make `path` a copy of the blob: a copy, so that edits stay outside.

        It is made as `temporary`, on the same disk.

        Raises: IngotError where the disk is full; FileNotFoundError where the blob is
        gone.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with _disk_errors(path.parent):
                _copy(self.blob(digest), temporary)
                os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)

    def identity(self) -> str:
        """Return what no other store has: two paths to one folder have the same.

        Raises: IngotError where the disk is full.
        """
        path = self.root / "lock/store"
        with _disk_errors(self.root), self._held("tmp", fcntl.LOCK_EX):
            if not path.exists():
                path.write_text(os.urandom(16).hex())
            # A copy of the folder has the same text, in another file.
            return f"{path.read_text()} {path.stat().st_ino}"

    def locked(self, key: Digest) -> AbstractContextManager[None]:
        """Hold the key's lock: two builds that want one action run it once."""
        return self._held(f"{int(key.hash[:8], 16) % N_LOCKS:03x}", fcntl.LOCK_EX)

    def machine(self, alone: bool) -> AbstractContextManager[None]:
        """Share the machine with all other actions; or have it alone."""
        return self._held("machine", fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    @contextlib.contextmanager
    def _held(self, name: str, how: int) -> Iterator[None]:
        with open(self.root / "lock" / name, "w") as file:
            # The kernel lets go of it when the process dies, however it dies.
            fcntl.flock(file, how)
            yield

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty private folder on the store's disk; it is removed."""
        with _disk_errors(self.root), self._held("tmp", fcntl.LOCK_SH):
            path = Path(tempfile.mkdtemp(dir=self.root / "tmp"))
            # Held as long as its owner lives: `sweep` removes what nobody holds.
            handle = os.open(path, os.O_RDONLY)
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            os.close(handle)

    def sweep(self) -> None:
        """Remove what killed builds left under `tmp/`."""
        with self._held("tmp", fcntl.LOCK_EX):
            for path in (self.root / "tmp").iterdir():
                with contextlib.suppress(OSError):
                    handle = os.open(path, os.O_RDONLY)
                    try:
                        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                    finally:
                        os.close(handle)

    def _pin(self, digest: Digest) -> None:
        # Before it is looked for: what is there and unused may go at any moment.
        with _disk_errors(self.root):
            self._uses.pin(digest.hash)

    def _path(self, kind: str, name: str) -> Path:
        return self.root / kind / name[:2] / name

    def _put(self, content: bytes, path: Path) -> None:
        with self.scratch() as folder, _disk_errors(self.root):
            temporary = folder / path.name
            temporary.write_bytes(content)
            self._publish(temporary, path)

    def _publish(self, temporary: Path, path: Path) -> None:
        """Give a finished file its name: sync, forbid writing, rename."""
        with _disk_errors(self.root):
            path.parent.mkdir(exist_ok=True)
            handle = os.open(temporary, os.O_RDONLY)
            try:
                os.fsync(handle)
                os.fchmod(handle, 0o444)
            finally:
                os.close(handle)
            os.replace(temporary, path)


def _copy(source: Path, target: Path) -> None:
    """Copy content, sharing blocks where the file system can."""
    with open(source, "rb") as reader, open(target, "wb") as writer:
        remaining = os.fstat(reader.fileno()).st_size
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


@contextlib.contextmanager
def _disk_errors(place: Path) -> Iterator[None]:
    """Turn a full or read-only disk into an error that says what to do."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _store_error(place, error) from error


def _store_error(place: Path, error: OSError) -> IngotError:
    reason = error.strerror or str(error)
    return IngotError(
        f"store {place}: cannot write: {reason}",
        "make room or permission there, or set INGOT_CACHE to another folder;"
        " finished actions are kept",
    )
