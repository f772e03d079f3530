"""What a build asks of a shared cache: results by key, each blob verified.

A cache is help, never a need: where it fails that is said once, and the build goes on
without it. Blobs are sent before the result that names them, beside the build.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ingot.edges import results
from ingot.edges.files import SMALL_BYTES
from ingot.edges.message import Damaged
from ingot.edges.shared.patient import PatientRemote
from ingot.edges.shared.remote import BlobRefused, CacheFailure, Patience, Remote, paced
from ingot.edges.shared.uploads import Uploads
from ingot.edges.store import Store
from ingot.values import ActionResult, Digest

# An action result names some files; more than this is something else.
MESSAGE_BYTES = 4 << 20

# A cache with more damage than this is not worth asking.
N_DAMAGED = 10


class SharedCache:
    """A remote in front of nothing and behind the store; safe for several threads."""

    def __init__(
        self,
        remote: Remote,
        store: Store,
        warn: Callable[[str], None],
        writes: bool,
        patience: Patience,
    ) -> None:
        """Keep the remote; nothing is asked yet. Without `writes` nothing is sent."""
        self.name = remote.name
        self._remote = remote
        self._store = store
        self._warn = warn
        self._patience = patience
        self._may_write = writes
        # Whether the build still looks there, and sends there beside its work; who
        # needs the cache is told of each failure instead.
        self._reads = True
        self._writes = writes
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._n_damaged = 0
        self._damaged: set[Digest] = set()
        self._present: set[Digest] = set()
        self._uploads = Uploads()

    def patient(
        self, lost: Callable[[], None], wait: Callable[[float], None]
    ) -> SharedCache:
        """Return the same cache for what cannot do without: it is waited for."""
        patience = self._patience
        remote = PatientRemote(self._remote, lost, wait, patience.return_s)
        return SharedCache(remote, self._store, self._warn, self._may_write, patience)

    def fetch(self, key: Digest, outputs: tuple[str, ...]) -> ActionResult | None:
        """Return the key's result once all of it is in the store; None without one."""
        if not self._reads:
            return None
        try:
            content = self._message(key)
            if content is None:
                return None
            result = self._decoded(key, content, outputs)
            if result is None:
                return None
            # What is here already stays, however full the store is meanwhile.
            self._store.use(key.hash, *result.blobs())
            if not all(self._bring(digest) for digest in result.blobs()):
                return None
        except CacheFailure as error:
            self._stop("read", str(error))
            return None
        self._store.put_action(key, result)
        return result

    def share(self, key: Digest, blobs: Iterable[Digest]) -> None:
        """Send a result that the store has, soon: its blobs, then the result itself."""
        if self._writes:
            needed = tuple(blobs)
            self._uploads.add(lambda: self._share(key, needed))

    def bring(self, digest: Digest) -> bool:
        """Return whether the blob is in the store, from now on.

        Raises: CacheFailure where the cache fails.
        """
        self._store.pin(digest)
        return self._bring(digest)

    def send(self, files: Mapping[Digest, Path], again: bool = False) -> None:
        """Send the files that are not there; `again`, whatever is said to be there.

        Raises: CacheFailure where the cache fails, or takes nothing from here.
        """
        if not self._may_write:
            raise CacheFailure("nothing is sent there")
        known = set() if again else self._present
        asked = [digest for digest in files if digest not in known]
        wanted = (
            set(asked)
            if again
            else self._remote.missing(asked) | self._damaged.intersection(asked)
        )
        for digest in wanted:
            self._remote.put("cas", digest, files[digest])
            self._damaged.discard(digest)
        self._present.update(asked)

    def publish(self, key: Digest, blobs: Iterable[Digest], again: bool) -> None:
        """Send a result that the store has, now: its blobs, then the result itself.

        Raises: CacheFailure where the cache fails, or takes nothing from here.
        """
        files = {digest: self._store.blob(digest) for digest in blobs}
        # A worker lives for weeks: what was there once may be there no more.
        self._present.difference_update(files)
        self.send(files, again)
        self._remote.put("ac", key, self._entry(key))

    def finish(self, silent_s: float = 1.0) -> None:
        """Wait for what is being sent; say so where that takes longer."""
        left = self._uploads.finish(timeout_s=silent_s)
        if left:
            self._say(f"sending the last {left} results")
            self._uploads.finish()

    def abandon(self) -> None:
        """Send no more; say what is left."""
        left = self._uploads.abandon()
        if left:
            self._say(f"{left} results were not sent")

    def _share(self, key: Digest, blobs: tuple[Digest, ...]) -> None:
        if not self._writes:
            return
        try:
            wanted = [digest for digest in blobs if digest not in self._present]
            for digest in self._remote.missing(wanted) | self._damaged.intersection(
                blobs
            ):
                self._remote.put("cas", digest, self._store.blob(digest))
                self._damaged.discard(digest)
            self._present.update(wanted)
            self._remote.put("ac", key, self._entry(key))
        except BlobRefused as error:
            self._say(f"{error}; a result was not sent")
        except CacheFailure as error:
            self._stop("write", str(error))
        except OSError as error:
            # Another build's clean-up may have been here first.
            self._say(f"cannot send {error.filename}: {error.strerror}")

    def _entry(self, key: Digest) -> Path:
        return self._store.root / "ac" / key.hash[:2] / key.hash

    def _decoded(
        self, key: Digest, content: bytes, outputs: tuple[str, ...]
    ) -> ActionResult | None:
        """Return the result that the message tells; None where it is another's."""
        try:
            result = results.from_bytes(content)
        except Damaged:
            result = ActionResult(())
        names = {path for path, _ in result.outputs}
        if result.exit_code == 0 and names == set(outputs):
            return result
        self._damage(f"the result of action {key}")
        return None

    def _message(self, key: Digest) -> bytes | None:
        pieces = self._remote.get("ac", key)
        if pieces is None:
            return None
        content = b""
        for piece in paced(pieces, self._patience.deadline(MESSAGE_BYTES)):
            content += piece
            if len(content) > MESSAGE_BYTES:
                break
        return content

    def _bring(self, digest: Digest) -> bool:
        if self._store.holds(digest):
            return True
        if digest.size_bytes == 0:
            # Everybody knows it, so Bazel never sends it.
            return self._store.put_bytes(b"") == digest
        try:
            pieces = self._remote.get("cas", digest)
        except BlobRefused:
            # Its first piece cannot be unpacked already.
            pieces = iter(())
        if pieces is None:
            return False
        if self._keep(digest, pieces):
            self._present.add(digest)
            return True
        self._damaged.add(digest)
        self._present.discard(digest)
        self._damage(f"blob {digest}")
        return False

    def _keep(self, digest: Digest, pieces: Iterator[bytes]) -> bool:
        """Return whether the pieces were the blob, which the store has then."""
        if digest.size_bytes <= SMALL_BYTES:
            content = bytearray()
            for piece in self._limited(digest, pieces):
                content += piece
            if Digest(hashlib.sha256(content).hexdigest(), len(content)) != digest:
                return False
            self._store.put_blobs(((digest, bytes(content)),))
            return True
        hasher, size_bytes = hashlib.sha256(), 0
        with self._store.scratch() as folder:
            path = folder / digest.hash
            with open(path, "wb") as file:
                for piece in self._limited(digest, pieces):
                    size_bytes += len(piece)
                    hasher.update(piece)
                    file.write(piece)
            if Digest(hasher.hexdigest(), size_bytes) != digest:
                return False
            self._store.take_file(path)
        return True

    def _limited(self, digest: Digest, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces until they are too many."""
        left = digest.size_bytes
        # What cannot be unpacked is as damaged as what is another content.
        with contextlib.suppress(BlobRefused):
            for piece in paced(pieces, self._patience.deadline(digest.size_bytes)):
                yield piece
                left -= len(piece)
                if left < 0:
                    return

    def _damage(self, what: str) -> None:
        self._say(f"{what} is damaged there; dropped, it is made again")
        self._n_damaged += 1
        if self._n_damaged > N_DAMAGED:
            self._stop("read", "too much of it is damaged")

    def _stop(self, how: str, reason: str) -> None:
        """Ask no more, or send no more; what cannot be read is not written either."""
        with self._lock:
            was = self._reads if how == "read" else self._writes
            self._writes = False
            if how == "read":
                self._reads = False
        if was:
            without = "without it" if how == "read" else "and sends nothing there"
            self._say(f"{reason}; the build goes on {without}")

    def _say(self, text: str) -> None:
        with self._lock:
            if text in self._said:
                return
            self._said.add(text)
        self._warn(f"shared cache {self.name}: {text}")
