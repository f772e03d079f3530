"""What a build asks of a shared cache: results by key, each blob verified.

A cache is help, never a need: where it fails that is said once, and the build goes on
without it. Blobs are sent before the result that names them, beside the build.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ingot.engine import results
from ingot.engine.actions import ActionResult, Digest
from ingot.engine.cache import hints, inline_blobs
from ingot.engine.cache.backend import (
    BlobRejected,
    CacheBackend,
    CacheFailure,
    Timeouts,
)
from ingot.engine.cache.download import keep, message
from ingot.engine.cache.health import CacheHealth
from ingot.engine.cache.hints import Last
from ingot.engine.cache.retry import RetryingBackend
from ingot.engine.cache.uploads import UploadQueue
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.store import Store
from ingot.errors import IngotError

# One that answers sooner keeps a thread waiting for less than the threads each other.
NEAR_S = 2e-3

# Locks are shared out over the blobs: few are moved at once.
N_LOCKS = 256


class SharedCache:
    """A remote in front of nothing and behind the store; safe for several threads."""

    def __init__(
        self,
        remote: CacheBackend,
        store: Store,
        warn: Callable[[str], None],
        writes: bool,
        timeouts: Timeouts,
        project: str = "",
    ) -> None:
        """Keep the remote; nothing is asked yet. Without `writes` nothing is sent."""
        self.name = remote.name
        self._remote = remote
        self._store = store
        self._warn = warn
        self._timeouts = timeouts
        self._project = project
        self._may_write = writes
        # Whether the build still looks there, and sends there beside its work; who
        # needs the cache is told of each failure instead.
        self._standing = CacheHealth(remote.name, warn, writes)
        self._hints = True
        self._damaged: set[Digest] = set()
        self._present: set[Digest] = set()
        self._uploads = UploadQueue()
        self._answer_s = math.inf  # what the last result took to come
        self._answers: dict[str, ActionResult | None] = {}
        # One thread moves a blob; others that want it then see that it is there.
        self._moving = tuple(threading.Lock() for _ in range(N_LOCKS))
        self._waited: Callable[[Callable[[], bool]], bool] = lambda ask: ask()

    def patient(
        self, lost: Callable[[], None], wait: Callable[[float], None]
    ) -> SharedCache:
        """Return the same cache for what cannot do without: it is waited for."""
        timeouts = self._timeouts
        remote = RetryingBackend(self._remote, lost, wait, timeouts.return_s)
        cache = SharedCache(
            remote, self._store, self._warn, self._may_write, timeouts, self._project
        )
        # The whole transfer: a server may go away in the middle of a blob.
        cache._waited = remote.patiently
        return cache

    def fetch(self, key: Digest, outputs: tuple[str, ...]) -> ActionResult | None:
        """Return the key's result once all of it is in the store; None without one."""
        if not self._standing.reads:
            return None
        try:
            if key.hash in self._answers:
                result = self._answers.pop(key.hash)
            else:
                result = self._result(key, outputs)
            if result is None:
                return None
            # What is here already stays, however full the store is meanwhile.
            self._store.lease_result(key.hash, *result.blobs())
            if not all(self._bring(d) for d in inline_blobs.keep(self._store, result)):
                return None
        except CacheFailure as error:
            self._standing.stop("read", str(error))
            return None
        self._store.put_action(key, result)
        return result

    def answers_fast(self) -> bool:
        """Return whether its last answer came so soon that no thread need wait."""
        return self._standing.reads and self._answer_s < NEAR_S

    def fetch_small(
        self, key: Digest, outputs: tuple[str, ...], limit_bytes: int
    ) -> ActionResult | None:
        """Do as `fetch` if the outputs are no larger than that; else only ask."""
        result = self._answers[key.hash] = self.look_up(key, outputs)
        if result is None or result.size_bytes() > limit_bytes:
            return None
        result = self.fetch(key, outputs)
        if result is None:
            # What is gone or damaged there is not asked for again.
            self._answers[key.hash] = None
        return result

    def look_up(self, key: Digest, outputs: tuple[str, ...]) -> ActionResult | None:
        """Return the key's result; nothing of it is brought."""
        try:
            return self._result(key, outputs) if self._standing.reads else None
        except CacheFailure as error:
            self._standing.stop("read", str(error))
            return None

    def last(self, task: str) -> Last | None:
        """Return as what the task was last built.

        A hint: it may be anyone's, of any time, and there may be none.
        """
        if not self._standing.reads:
            return None
        try:
            content = self._message(hints.place(self._project, task))
            return hints.from_bytes(content, task) if content else None
        except CacheFailure as error:
            self._standing.stop("read", str(error))
            return None

    def share(self, key: Digest, result: ActionResult) -> None:
        """Send a result that the store has, soon: its blobs, then the result itself."""
        if self._standing.writes:
            self._uploads.add(lambda: self._share(key, result))

    def with_inline_blobs(self, result: ActionResult) -> ActionResult:
        """Return the result as it is to be kept and sent: with its small blobs."""
        return inline_blobs.inlined(self._store, result)

    def hint(self, result: ActionResult) -> None:
        """Leave, soon, word of the action that the task was just built as."""
        if self._standing.writes:
            self._uploads.add(lambda: self._hint(result))

    def ensure_local(self, digest: Digest) -> bool:
        """Return whether the blob is in the store, from now on.

        Raises: CacheFailure where the cache fails.
        """
        self._store.lease(digest)
        return self._waited(lambda: self._bring(digest))

    def send(self, files: Mapping[Digest, Path], again: bool = False) -> None:
        """Send the files that are not there; `again`, whatever is said to be there.

        Raises: CacheFailure where the cache fails, or takes nothing from here.
        """
        if not self._may_write:
            raise CacheFailure("nothing is sent there")
        if again:
            self._present.difference_update(files)
            wanted = set(files)
        else:
            asked = [digest for digest in files if digest not in self._present]
            wanted = self._remote.missing(asked) | self._damaged.intersection(asked)
            self._present.update(set(asked) - wanted)
        for digest in wanted:
            with self._alone(digest):
                if digest not in self._present:
                    self._remote.put("cas", digest, files[digest])
                    self._damaged.discard(digest)
                    self._present.add(digest)

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
            self._standing.say(f"sending the last {left} results")
            self._uploads.finish()

    def abandon(self) -> None:
        """Send no more; say what is left."""
        left = self._uploads.abandon()
        if left:
            self._standing.say(f"{left} results were not sent")

    def _share(self, key: Digest, result: ActionResult) -> None:
        if not self._standing.writes:
            return
        try:
            self.send({digest: self._store.blob(digest) for digest in result.blobs()})
            self._remote.put("ac", key, self._entry(key))
            self._hint(result)
        except BlobRejected as error:
            self._standing.say(f"{error}; a result was not sent")
        except CacheFailure as error:
            self._standing.stop("write", str(error))
        except OSError as error:
            # Another build's clean-up may have been here first.
            self._standing.say(f"cannot send {error.filename}: {error.strerror}")

    def _hint(self, result: ActionResult) -> None:
        """Say what goes wrong and try it no more: results are worth more than hints."""
        if not (self._standing.writes and self._hints and result.task):
            return
        last = Last(result.messages, time.time())
        try:
            with self._store.scratch() as folder:
                path = folder / "hint"
                path.write_bytes(hints.to_bytes(result.task, last))
                self._remote.put("ac", hints.place(self._project, result.task), path)
        except (CacheFailure, IngotError, OSError) as error:
            self._hints = False
            self._standing.say(
                f"{error}; `doit why` elsewhere will not know of this build"
            )

    def _entry(self, key: Digest) -> Path:
        return self._store.root / "ac" / key.hash[:2] / key.hash

    def _result(self, key: Digest, outputs: tuple[str, ...]) -> ActionResult | None:
        start = time.monotonic()
        content = self._message(key)
        self._answer_s = time.monotonic() - start
        return None if content is None else self._decoded(key, content, outputs)

    def _decoded(
        self, key: Digest, content: bytes, outputs: tuple[str, ...]
    ) -> ActionResult | None:
        """Return the result that the message tells; None where it is another's."""
        try:
            result = results.from_bytes(content)
        except CorruptMessage:
            result = ActionResult(())
        names = {path for path, _ in result.outputs}
        right = result.exit_code == 0 and names == set(outputs)
        if right and inline_blobs.is_whole(result):
            return result
        self._standing.damage(f"the result of action {key}")
        return None

    def _message(self, key: Digest) -> bytes | None:
        pieces = self._remote.get("ac", key)
        return None if pieces is None else message(pieces, self._timeouts)

    def _bring(self, digest: Digest) -> bool:
        if self._store.holds(digest):
            return True
        if digest.size_bytes == 0:
            # Everybody knows it, so Bazel never sends it.
            return self._store.put_bytes(b"") == digest
        with self._alone(digest):
            return self._store.holds(digest) or self._get(digest)

    def _alone(self, digest: Digest) -> threading.Lock:
        return self._moving[int(digest.hash[:8], 16) % N_LOCKS]

    def _get(self, digest: Digest) -> bool:
        """Return whether the cache has the blob, which the store has then."""
        try:
            pieces = self._remote.get("cas", digest)
        except BlobRejected:
            # Its first piece cannot be unpacked already.
            pieces = iter(())
        if pieces is None:
            return False
        if keep(self._store, digest, pieces, self._timeouts):
            self._present.add(digest)
            return True
        self._damaged.add(digest)
        self._present.discard(digest)
        self._standing.damage(f"blob {digest}")
        return False
