"""Store action results by key and blobs by digest, in one folder that builds share.

The layout is that of Bazel's disk cache (`ac/xx/<hash>`, `cas/xx/<hash>`), so that
Bazel can use the same folder. Files are written under `tmp/` and renamed, so that a
killed build leaves nothing that a later one trusts. Blobs are verified when they are
read, and corrupt ones are deleted. The digest of a large blob is remembered after one
read, so a large blob is synced to disk before it gets its name; every process reads
small ones again, so a power cut may cost them.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from ingot.engine import atomic_files
from ingot.engine.action_results import encode_result, result_of
from ingot.engine.actions import ActionResult, Digest, digest_of
from ingot.engine.atomic_files import DiskErrors
from ingot.engine.digests import (
    SETTLED_NS,
    Digests,
    Identity,
    copy_file,
    hash_file,
    identify,
    is_settled,
)
from ingot.engine.leases import Leases
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.errors import IngotError

# EPERM, EACCES, EXDEV, EMLINK, ENOSYS, EOPNOTSUPP: of another user, on another disk,
# with too many names already, or on a disk without links.
_CANNOT_LINK = (1, 13, 18, 31, 38, 95)

# Keys share this many lock files, so that the folder stays small.
N_LOCKS = 4096


class CorruptBlob(IngotError):
    """A blob was not what it is named for when it was copied; it was deleted."""


class Store:
    """A folder of blobs and action results; safe for several processes at once."""

    def __init__(self, root: Path, warn: Callable[[str], None]) -> None:
        """Open the store, creating its folders; report corrupt files to `warn`.

        Raises: IngotError if the folder cannot be created or written.
        """
        self.root = root
        # Each action builds some twenty paths: text is cheaper than pathlib.
        self._text = str(root)
        self._warn = warn
        try:
            for name in ("ac", "cas", "tmp", "lock"):
                (root / name).mkdir(parents=True, exist_ok=True)
            # Only a write tells a read-only disk from missing permissions.
            tempfile.TemporaryFile(dir=root / "tmp").close()
        except OSError as error:
            raise atomic_files.write_error(root, error) from error
        self.digests = Digests(root / "digests.sqlite")
        self._leases = Leases(root)
        self._whole: dict[str, Identity] = {}  # small blobs that were read
        self._own = ""  # folder under tmp/ of this process
        self._identity = ""
        self._opening = threading.Lock()
        self._numbers = itertools.count()

    def action(self, key: Digest, outputs: Collection[str]) -> ActionResult | None:
        """Return the key's result if it and all its blobs are there and intact.

        `outputs` are the paths that it must have: a flipped bit may leave a message
        that still decodes.
        """
        path = self._path("ac", key.hash)
        self.lease_result(key.hash)
        try:
            with open(path, "rb", buffering=0) as file:
                result = result_of(key.hash, file.read())
        except FileNotFoundError:
            return None
        except (CorruptMessage, OSError) as error:
            self._warn(f"discarded a corrupt action result, {path}: {error}")
            atomic_files.unlink(path)
            return None
        # ingot stores no failures, but another program may.
        names = {path for path, _ in result.outputs}
        if result.exit_code != 0 or not names or names != set(outputs):
            return None
        if not all(self.holds(blob) for blob in result.blobs()):
            return None
        return result

    def may_have(self, key: Digest) -> bool:
        """Return whether there is a result under the key, complete or not."""
        return os.path.exists(self._path("ac", key.hash))

    def put_action(self, key: Digest, result: ActionResult) -> None:
        """Store the result under the key; its blobs must already be in the store."""
        self._put(encode_result(result), self._path("ac", key.hash))

    def lease_result(self, key: str, *blobs: Digest) -> None:
        """Lease the key's result and the blobs, and mark the result as used now.

        Call it before looking whether they are there: what is not leased may be
        removed.

        Raises: IngotError if the disk is full.
        """
        with DiskErrors(self.root):
            self._leases.acquire(key, *(digest.hash for digest in blobs))
        self._leases.touch(self._path("ac", key))

    def lease(self, *digests: Digest) -> None:
        """Keep the blobs, present or future, as long as this process lives.

        Raises: IngotError if the disk is full.
        """
        # Call it before looking: garbage collection may remove unleased blobs at any
        # moment.
        with DiskErrors(self.root):
            self._leases.acquire(*(digest.hash for digest in digests))

    def lease_scope(self) -> AbstractContextManager[None]:
        """Release, at the end of the block, what this thread leased in it."""
        return self._leases.scope()

    def holds(self, digest: Digest) -> bool:
        """Return whether the blob is there and intact; delete a corrupt one."""
        path = self._path("cas", digest.hash)
        try:
            asked_ns = time.time_ns()
            identity = identify(os.stat(path))
            if self._whole.get(digest.hash) == identity:
                return identity[2] == digest.size_bytes
            found = self._read(path, identity, asked_ns)
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cannot read {path}: {error}")
            return False
        # With another size the caller's digest is wrong, not the blob.
        return self._keep_intact(digest, found) and found == digest

    def is_intact(self, digest: Digest) -> bool:
        """Return what `holds` does, but read the blob again whatever its size.

        A disk may lose a bit of a large blob long after its digest was remembered.
        """
        try:
            return self._keep_intact(digest, hash_file(self._path("cas", digest.hash)))
        except FileNotFoundError:
            return False
        except OSError as error:
            self._warn(f"cannot read {error.filename}: {error.strerror}")
            return False

    def _keep_intact(self, digest: Digest, found: Digest) -> bool:
        """Delete the blob if its content is not what it is named for."""
        if found.hash == digest.hash:
            return True
        path = self._path("cas", digest.hash)
        self._warn(f"discarded a corrupt blob, {path}: its content is {found}")
        atomic_files.unlink(path)
        return False

    def _read(self, path: str, identity: Identity, asked_ns: int) -> Digest:
        """Return the digest of a blob's content; that of a large blob is remembered."""
        if identity[2] > atomic_files.SMALL_BYTES:
            return self.digests.of_file(path)
        content = atomic_files.read(path, identity[2])
        found = digest_of(content)
        if found.hash == path.rpartition("/")[2] and is_settled(identity, asked_ns):
            self._whole[found.hash] = identity
        return found

    def blob(self, digest: Digest) -> Path:
        """Return the path of the blob, which must not be written to."""
        return Path(self._path("cas", digest.hash))

    def put_bytes(self, content: bytes) -> Digest:
        """Store the content as a blob."""
        digest = digest_of(content)
        self.put_blob(digest, content)
        return digest

    def put_blob(self, digest: Digest, content: bytes) -> None:
        """Store a content whose digest is known."""
        self.lease(digest)
        if not self.holds(digest):
            self._put(content, self._path("cas", digest.hash))

    def take_file(self, path: Path | str) -> Digest:
        """Move a file that nothing else uses into the store as a blob."""
        digest = hash_file(path)
        self.lease(digest)
        if not self.holds(digest):
            self._publish(path, self._path("cas", digest.hash))
        return digest

    def copy_to(self, digest: Digest, path: Path | str, temporary: Path | str) -> None:
        """Copy the blob to `path`: a copy, so that edits do not reach the store.

        The copy is written to `temporary`, on the same disk, and renamed.

        Raises: IngotError if the disk is full; CorruptBlob if the blob is corrupt, and
        was deleted; FileNotFoundError if it is gone.
        """
        parent = os.path.dirname(path)
        if not os.path.isdir(parent):
            os.makedirs(parent, exist_ok=True)
        try:
            with DiskErrors(parent, is_store=False):
                found = copy_file(self._path("cas", digest.hash), temporary)
                if not self._keep_intact(digest, found):
                    raise CorruptBlob(f"blob {digest} of the store is corrupt")
                os.replace(temporary, path)
        except BaseException:
            atomic_files.unlink(temporary)
            raise

    def link_to(self, digest: Digest, path: str, temporary: str) -> bool:
        """Make `path` another name of the blob; return False if the disk cannot.

        It has the name `temporary`, on the same disk, first. The blob is read again, as
        for a copy.

        Raises: IngotError if the disk is full; CorruptBlob if the blob is corrupt, and
        was deleted; FileNotFoundError if it is gone.
        """
        atomic_files.unlink(temporary)
        try:
            os.link(self._path("cas", digest.hash), temporary)
        except OSError as error:
            if error.errno in _CANNOT_LINK:
                return False
            raise
        with DiskErrors(os.path.dirname(path), is_store=False):
            atomic_files.rename(temporary, path)
        # Linking changes the ctime, which is a part of the identity under which the
        # digest is remembered: it would be read again by the next build.
        time.sleep(SETTLED_NS / 1e9)
        self.digests.forget(path)
        if not self._keep_intact(digest, self.digests.of_file(path)):
            atomic_files.unlink(path)
            raise CorruptBlob(f"blob {digest} of the store is corrupt")
        return True

    def identity(self) -> str:
        """Return a text that identifies this store, whichever path leads to it.

        Raises: IngotError if the disk is full.
        """
        if not self._identity:
            path = self.root / "lock/store"
            with DiskErrors(self.root), self._held("tmp", fcntl.LOCK_EX):
                if not path.exists():
                    path.write_text(os.urandom(16).hex())
                # A copied store has the same text, but in another file.
                self._identity = f"{path.read_text()} {path.stat().st_ino}"
        return self._identity

    def lock(self, key: Digest, wait: bool = True) -> AbstractContextManager[bool]:
        """Hold the key's lock: two builds that need one action run it once.

        Without `wait`, yield whether the lock was free.
        """
        name = f"{int(key.hash[:8], 16) % N_LOCKS:03x}"
        return _flock(f"{self._text}/lock/{name}", fcntl.LOCK_EX, wait)

    @contextlib.contextmanager
    def machine_lock(
        self, exclusive: bool, on_wait: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Share the machine with all other actions, or have it exclusively.

        `on_wait` is called if other actions run. Each action takes the turn lock
        before the machine lock, and an exclusive one keeps the turn while it waits, so
        that no later action overtakes it, however many there are.
        """
        with contextlib.ExitStack() as stack:
            with self._held("turn", fcntl.LOCK_EX):
                how = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
                path = f"{self._text}/lock/machine"
                stack.enter_context(_flock(path, how, on_wait=on_wait))
            yield

    def _held(self, name: str, how: int) -> AbstractContextManager[bool]:
        return _flock(f"{self._text}/lock/{name}", how)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty private folder on the store's disk, and remove it."""
        with DiskErrors(self.root):
            path = self._temporary()
            os.mkdir(path, 0o700)
        try:
            yield Path(path)
        finally:
            atomic_files.remove_folder(path)

    def _temporary(self) -> str:
        """Return a new, unused path under `tmp/`.

        It is in a folder that this process locks while it lives: `sweep` removes
        folders without a lock.
        """
        with self._opening:
            if not os.path.isdir(self._own):
                with self._held("tmp", fcntl.LOCK_SH):
                    self._own = tempfile.mkdtemp(dir=self.root / "tmp")
                    handle = os.open(self._own, os.O_RDONLY)
                    fcntl.flock(handle, fcntl.LOCK_EX)
                weakref.finalize(self, _let_go, self._own, handle)
        return f"{self._own}/{next(self._numbers)}"

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

    def _path(self, kind: str, name: str) -> str:
        return f"{self._text}/{kind}/{name[:2]}/{name}"

    def _put(self, content: bytes, path: str) -> None:
        with DiskErrors(self.root):
            temporary = self._temporary()
            try:
                with open(temporary, "xb", buffering=0) as file:
                    atomic_files.write(file, content)
                    atomic_files.finish(file.fileno(), len(content))
                atomic_files.rename(temporary, path)
            except BaseException:
                atomic_files.unlink(temporary)
                raise

    def _publish(self, temporary: Path | str, path: str) -> None:
        """Make a finished file read-only and give it its name."""
        with DiskErrors(self.root):
            handle = os.open(temporary, os.O_RDONLY)
            try:
                atomic_files.finish(handle, os.fstat(handle).st_size)
            finally:
                os.close(handle)
            atomic_files.rename(temporary, path)


def _let_go(folder: str, handle: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)


@contextlib.contextmanager
def _flock(
    path: str,
    how: int,
    wait: bool = True,
    on_wait: Callable[[], None] = lambda: None,
) -> Iterator[bool]:
    """Hold the file's lock: `fcntl.LOCK_EX` alone, or `fcntl.LOCK_SH` with others.

    Yield whether this process has it, which only without `wait` may be false. `on_wait`
    is called if another process has it. The kernel releases the lock when the process
    dies, however it dies.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(handle, how | fcntl.LOCK_NB)
            is_ours = True
        except BlockingIOError:
            is_ours = wait
            if wait:
                on_wait()
                fcntl.flock(handle, how)
        yield is_ours
    finally:
        os.close(handle)
