"""Look up results in a shared cache, verify every blob, and upload what this build ran.

A build can always do without the cache: if the cache fails, the build reports that
once and continues. Uploads run on threads of their own, next to the build; the blobs go
before the result that names them, so that no client finds a result without its blobs.

Small blobs travel inside of the result (the API has a field for them), so that fetching
a small result takes one request instead of three.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ingot.engine import action_results
from ingot.engine.actions import ActionResult, Digest, digest_of
from ingot.engine.atomic_files import SMALL_BYTES
from ingot.engine.cache import build_hints
from ingot.engine.cache.backend import (
    RESULT_BYTES,
    BlobRejected,
    CacheBackend,
    CacheFailure,
    Kind,
    Timeouts,
    Unreachable,
    with_deadline,
)
from ingot.engine.cache.build_hints import BuildHint
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.signed_statements import Statement, result_statement
from ingot.engine.store import Store
from ingot.engine.trust import Trust
from ingot.errors import IngotError, counted

# Waiting this long for a response costs less than handing the request to a thread.
NEAR_S = 2e-3

# Blobs share this many locks: few are transferred at once.
N_LOCKS = 256

# A file takes this much disk space anyway; a larger blob is worth its own request.
INLINE_BYTES = 4 << 10

# After more corrupt entries than this, a build stops using the cache.
N_CORRUPT = 10

N_UPLOAD_THREADS = 4

T = TypeVar("T")


class SharedCache:
    """The results that machines share through one cache; safe for several threads."""

    def __init__(
        self,
        backend: CacheBackend,
        store: Store,
        warn: Callable[[str], None],
        writes: bool,
        timeouts: Timeouts,
        project: str = "",
        trust: Trust | None = None,
        sign: Callable[[Statement], bytes] | None = None,
    ) -> None:
        """Prepare the cache without contacting it; without `writes`, upload nothing.

        With `trust`, use only what a trusted key has signed; `sign` signs for this
        machine.
        """
        self.name = backend.name
        self._backend = backend
        self._store = store
        self._warn = warn
        self._timeouts = timeouts
        self._project = project
        self._may_write = writes
        self._trust = trust
        self._sign = sign
        # For fetching and for uploads next to the build; callers that cannot do without
        # the cache get each failure as an exception instead.
        self._health = CacheHealth(backend.name, warn, writes)
        # Nobody in this project would use a result without a signature.
        self._sends_results = sign is not None or trust is None
        self._sends_hints = True
        self._corrupt: set[Digest] = set()
        self._present: set[Digest] = set()
        self._uploads = UploadQueue()
        self._response_s = math.inf  # how long the last lookup took
        self._looked_up: dict[str, ActionResult | None] = {}
        # One thread transfers a blob; others that want it then find it in the store.
        self._transfers = tuple(threading.Lock() for _ in range(N_LOCKS))

    @property
    def may_write(self) -> bool:
        """Return whether the settings let this machine upload anything."""
        return self._may_write

    def with_retries(
        self, lost: Callable[[], None], wait: Callable[[float], None]
    ) -> SharedCache:
        """Return the same cache for callers that need it: it waits for a lost server.

        `lost` is called when the server goes away, `wait` between two tries.
        """
        timeouts = self._timeouts
        backend = RetryingBackend(self._backend, lost, wait, timeouts.return_s)
        return SharedCache(
            backend,
            self._store,
            self._warn,
            self._may_write,
            timeouts,
            self._project,
            self._trust,
            self._sign,
        )

    def fetch(
        self, key: Digest, outputs: tuple[str, ...], task: str = ""
    ) -> ActionResult | None:
        """Download the key's result into the store; return None if there is none.

        `task` is what the result is for: a key may be trusted with some tasks only.
        """
        if not self._health.reads:
            return None
        try:
            if key.hash in self._looked_up:
                result = self._looked_up.pop(key.hash)
            else:
                result = self._get_result(key, outputs, task)
            if result is None:
                return None
            # Lease before looking: what the store already has must stay meanwhile.
            self._store.lease_result(key.hash, *result.blobs())
            missing = _store_inline_blobs(self._store, result)
            if not all(self._ensure_local(digest) for digest in missing):
                return None
        except CacheFailure as error:
            self._health.stop("read", str(error))
            return None
        self._store.put_action(key, result)
        return result

    def responds_fast(self) -> bool:
        """Return whether the last response came so fast that no thread need wait."""
        return self._health.reads and self._response_s < NEAR_S

    def fetch_small(
        self, key: Digest, outputs: tuple[str, ...], limit_bytes: int, task: str = ""
    ) -> ActionResult | None:
        """Fetch the result if its outputs fit the limit; else only look it up."""
        result = self._looked_up[key.hash] = self.look_up(key, outputs, task)
        if result is None or result.size_bytes() > limit_bytes:
            return None
        result = self.fetch(key, outputs, task)
        if result is None:
            # Do not look up again what is missing or corrupt there.
            self._looked_up[key.hash] = None
        return result

    def look_up(
        self, key: Digest, outputs: tuple[str, ...], task: str = ""
    ) -> ActionResult | None:
        """Return the key's result without downloading its blobs."""
        try:
            return self._get_result(key, outputs, task) if self._health.reads else None
        except CacheFailure as error:
            self._health.stop("read", str(error))
            return None

    def last_build(self, task: str) -> BuildHint | None:
        """Return the action that the task was last built as, by anyone, at any time."""
        if not self._health.reads:
            return None
        try:
            content = self._get_message(build_hints.hint_key(self._project, task))
            hint = build_hints.decode_hint(content, task) if content else None
            if hint is None or self._trust is None:
                return hint
            statement = hint.statement(self._project, task)
            return hint if self._trust.accepts_hint(statement, hint.signature) else None
        except CacheFailure as error:
            self._health.stop("read", str(error))
            return None

    def upload(self, key: Digest, result: ActionResult) -> None:
        """Queue the upload of a result that the store has."""
        if not self._health.writes:
            return
        if self._sends_results:
            self._uploads.add(lambda: self._upload(key, result))
        else:
            self._health.warn_once(
                "no result is uploaded, because nobody would trust it unsigned: set"
                " INGOT_SIGNING_KEY to a private key"
            )

    def for_upload(self, key: Digest, result: ActionResult) -> ActionResult:
        """Return the result signed, and with the contents of its small blobs.

        All its blobs must be in the store.
        """
        if self._sign is not None:
            signature = self._sign(result_statement(key.hash, result))
            result = replace(result, signature=signature)
        small = {d for d in result.blobs() if 0 < d.size_bytes <= INLINE_BYTES}
        contents = [(d, self._store.blob(d).read_bytes()) for d in small]
        return replace(result, contents=tuple(sorted(contents)))

    def upload_hint(self, result: ActionResult) -> None:
        """Queue the upload of a hint: as which action the task was just built."""
        if self._health.writes and self._sends_results:
            self._uploads.add(lambda: self._upload_hint(result))

    def ensure_local(self, digest: Digest) -> bool:
        """Return whether the blob is in the store, after a download if necessary.

        The store keeps the blob as long as this process lives.

        Raises: CacheFailure if the cache fails.
        """
        self._store.lease(digest)
        if isinstance(self._backend, RetryingBackend):
            # Retry whole downloads: a server may go away in the middle of a blob.
            return self._backend.retry(lambda: self._ensure_local(digest))
        return self._ensure_local(digest)

    def has_blob(self, digest: Digest) -> bool:
        """Return what `ensure_local` does; a cache that fails has no blob."""
        try:
            return self._health.reads and self.ensure_local(digest)
        except CacheFailure as error:
            self._health.stop("read", str(error))
            return False

    def send(self, files: Mapping[Digest, Path], again: bool = False) -> None:
        """Upload the files that the cache lacks; with `again`, upload all of them.

        Raises: CacheFailure if the cache fails, or may not be written.
        """
        if not self._may_write:
            raise CacheFailure("this machine only reads it")
        if again:
            self._present.difference_update(files)
            wanted = set(files)
        else:
            asked = [digest for digest in files if digest not in self._present]
            wanted = self._backend.missing(asked) | self._corrupt.intersection(asked)
            self._present.update(set(asked) - wanted)
        for digest in wanted:
            with self._transfer_lock(digest):
                if digest not in self._present:
                    self._backend.put("cas", digest, files[digest])
                    self._corrupt.discard(digest)
                    self._present.add(digest)

    def publish(self, key: Digest, blobs: Iterable[Digest], again: bool) -> None:
        """Upload a result that the store has, and its blobs before it, now.

        Raises: CacheFailure if the cache fails, or may not be written.
        """
        files = {digest: self._store.blob(digest) for digest in blobs}
        # A worker runs for weeks: what the cache had once may be gone.
        self._present.difference_update(files)
        self.send(files, again)
        self._backend.put("ac", key, self._stored_result(key))

    def finish(self, silent_s: float = 1.0) -> None:
        """Wait for all uploads; report how many are left if that takes longer."""
        left = self._uploads.finish(timeout_s=silent_s)
        if left:
            self._health.warn_once(f"uploading the last {counted(left, 'result')}")
            self._uploads.finish()

    def abandon(self) -> None:
        """Start no further upload; report how many are left."""
        left = self._uploads.abandon()
        if left:
            was = "was" if left == 1 else "were"
            self._health.warn_once(f"{counted(left, 'result')} {was} not uploaded")

    def _upload(self, key: Digest, result: ActionResult) -> None:
        if not self._health.writes:
            return
        try:
            self.send({digest: self._store.blob(digest) for digest in result.blobs()})
            self._backend.put("ac", key, self._stored_result(key))
            self._upload_hint(result)
        except BlobRejected as error:
            self._health.warn_once(f"{error}; a result was not uploaded")
        except CacheFailure as error:
            self._health.stop("write", str(error))
        except OSError as error:
            # Another build's garbage collection may have removed the file.
            self._health.warn_once(f"cannot upload {error.filename}: {error.strerror}")

    def _upload_hint(self, result: ActionResult) -> None:
        """Upload the hint; after one failure send no more: results matter more."""
        if not (self._health.writes and self._sends_hints and result.task):
            return
        hint = BuildHint(result.messages, time.time())
        if self._sign is not None:
            statement = hint.statement(self._project, result.task)
            hint = replace(hint, signature=self._sign(statement))
        try:
            with self._store.scratch() as folder:
                path = folder / "hint"
                path.write_bytes(build_hints.encode_hint(result.task, hint))
                key = build_hints.hint_key(self._project, result.task)
                self._backend.put("ac", key, path)
        except (CacheFailure, IngotError, OSError) as error:
            self._sends_hints = False
            self._health.warn_once(
                f"{error}; `doit why` elsewhere will not know of this build"
            )

    def _stored_result(self, key: Digest) -> Path:
        return self._store.root / "ac" / key.hash[:2] / key.hash

    def _get_result(
        self, key: Digest, outputs: tuple[str, ...], task: str
    ) -> ActionResult | None:
        start = time.monotonic()
        content = self._get_message(key)
        self._response_s = time.monotonic() - start
        result = None if content is None else self._decode(key, content, outputs)
        if result is None or self._trust is None:
            return result
        return result if self._trust.accepts(key.hash, result, task) else None

    def _decode(
        self, key: Digest, content: bytes, outputs: tuple[str, ...]
    ) -> ActionResult | None:
        """Return the message's result; None if it is not one of this action."""
        try:
            result = action_results.result_of(key.hash, content)
            # What was made here is not for a cache to say.
            result = replace(result, made_here=False)
        except CorruptMessage:
            result = ActionResult(())
        names = {path for path, _ in result.outputs}
        matches = result.exit_code == 0 and names == set(outputs)
        if matches and all(digest_of(blob) == d for d, blob in result.contents):
            return result
        self._health.report_corrupt(f"the result of action {key}")
        return None

    def _get_message(self, key: Digest) -> bytes | None:
        """Return the entry under the key, cut off if it is too long for a result."""
        pieces = self._backend.get("ac", key)
        if pieces is None:
            return None
        content = b""
        for piece in with_deadline(pieces, self._timeouts.deadline(RESULT_BYTES)):
            content += piece
            if len(content) > RESULT_BYTES:
                break
        return content

    def _ensure_local(self, digest: Digest) -> bool:
        if self._store.holds(digest):
            return True
        if digest.size_bytes == 0:
            # Bazel never uploads the empty blob, because every client knows it.
            return self._store.put_bytes(b"") == digest
        with self._transfer_lock(digest):
            return self._store.holds(digest) or self._download(digest)

    def _transfer_lock(self, digest: Digest) -> threading.Lock:
        return self._transfers[int(digest.hash[:8], 16) % N_LOCKS]

    def _download(self, digest: Digest) -> bool:
        """Return whether the cache had the blob, which is in the store then."""
        try:
            pieces = self._backend.get("cas", digest)
        except BlobRejected:
            # Not even its first piece can be unpacked.
            pieces = iter(())
        if pieces is None:
            return False
        if _store_verified(self._store, digest, pieces, self._timeouts):
            self._present.add(digest)
            return True
        self._corrupt.add(digest)
        self._present.discard(digest)
        self._health.report_corrupt(f"blob {digest}")
        return False


class CacheHealth:
    """Whether a cache is still read and written; reports each failure once."""

    def __init__(self, name: str, warn: Callable[[str], None], writes: bool) -> None:
        """Start with a cache that works; without `writes` it is never written."""
        self.reads = True
        self.writes = writes
        self._name = name
        self._warn = warn
        self._lock = threading.Lock()
        self._warned: set[str] = set()
        self._n_corrupt = 0

    def report_corrupt(self, what: str) -> None:
        """Report a corrupt entry; after too many of them stop reading the cache."""
        self.warn_once(f"{what} is corrupt there; it is discarded and rebuilt")
        self._n_corrupt += 1
        if self._n_corrupt > N_CORRUPT:
            self.stop("read", "too many of its entries are corrupt")

    def stop(self, how: str, reason: str) -> None:
        """Stop reading, or only writing; a cache that cannot be read is not written."""
        with self._lock:
            was_in_use = self.reads if how == "read" else self.writes
            self.writes = False
            if how == "read":
                self.reads = False
        if was_in_use:
            without = "without it" if how == "read" else "and uploads nothing"
            self.warn_once(f"{reason}; the build continues {without}")

    def warn_once(self, text: str) -> None:
        """Report the text unless it was reported before."""
        with self._lock:
            if text in self._warned:
                return
            self._warned.add(text)
        self._warn(f"shared cache {self._name}: {text}")


class RetryingBackend:
    """A backend that waits for its server to come back: workers need the cache."""

    def __init__(
        self,
        backend: CacheBackend,
        lost: Callable[[], None],
        wait: Callable[[float], None],
        return_s: float,
    ) -> None:
        """Wrap the backend; call `lost` when the server goes away, `wait` to pause."""
        self.name = backend.name
        self._backend = backend
        self._lost = lost
        self._wait = wait
        self._return_s = return_s

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the content in pieces; None if the cache does not have it."""
        return self.retry(lambda: self._backend.get(kind, digest))

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Upload the file."""
        self.retry(lambda: self._backend.put(kind, digest, path))

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs to upload."""
        asked = tuple(digests)
        return self.retry(lambda: self._backend.missing(asked))

    def retry(self, ask: Callable[[], T]) -> T:
        """Return what `ask` returns; call it again while the server is unreachable.

        Raises: CacheFailure if it fails, or the server stays away; IngotError if
        the build is being stopped.
        """
        end = time.monotonic() + self._return_s
        while True:
            try:
                return ask()
            except Unreachable:
                if time.monotonic() > end:
                    raise
                self._lost()
                self._wait(0.5)


class UploadQueue:
    """Work for a few threads, which die with the process whatever they wait for."""

    def __init__(self) -> None:
        """Start no thread yet: most builds upload nothing."""
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._threads: list[threading.Thread] = []

    def add(self, work: Callable[[], None]) -> None:
        """Queue the work; an exception in it is printed and stops nothing else."""
        with self._changed:
            self._waiting.append(work)
            if len(self._threads) < N_UPLOAD_THREADS:
                thread = threading.Thread(target=self._work, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def finish(self, timeout_s: float | None = None) -> int:
        """Wait for all work, or until the timeout; return how much is left."""
        with self._changed:
            self._changed.wait_for(lambda: not self._left(), timeout_s)
            return self._left()

    def abandon(self) -> int:
        """Start no further work; return how much is left."""
        with self._changed:
            left = self._left()
            self._waiting.clear()
            return left

    def _left(self) -> int:
        return len(self._waiting) + self._running

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                work = self._waiting.popleft()
                self._running += 1
            try:
                work()
            except Exception:
                traceback.print_exc()
            finally:
                with self._changed:
                    self._running -= 1
                    self._changed.notify_all()


def _store_inline_blobs(store: Store, result: ActionResult) -> list[Digest]:
    """Store the verified blobs inside of the result; return which are not inside."""
    for digest, content in result.contents:
        store.put_blob(digest, content)
    inline = {digest for digest, _ in result.contents}
    return [digest for digest in result.blobs() if digest not in inline]


def _store_verified(
    store: Store, digest: Digest, pieces: Iterator[bytes], timeouts: Timeouts
) -> bool:
    """Store the pieces if they are the blob; return whether they are.

    Raises: CacheFailure if they arrive too slowly.
    """
    limited = _limited(digest, pieces, timeouts)
    if digest.size_bytes <= SMALL_BYTES:
        content = b"".join(limited)
        if digest_of(content) != digest:
            return False
        store.put_blob(digest, content)
        return True
    hasher, size_bytes = hashlib.sha256(), 0
    with store.scratch() as folder:
        path = folder / digest.hash
        with open(path, "wb") as file:
            for piece in limited:
                size_bytes += len(piece)
                hasher.update(piece)
                file.write(piece)
        if Digest(hasher.hexdigest(), size_bytes) != digest:
            return False
        store.take_file(path)
    return True


def _limited(
    digest: Digest, pieces: Iterator[bytes], timeouts: Timeouts
) -> Iterator[bytes]:
    """Yield the pieces until they exceed the size that the digest states."""
    left = digest.size_bytes
    # Content that cannot be unpacked is as corrupt as content with another hash.
    with contextlib.suppress(BlobRejected):
        for piece in with_deadline(pieces, timeouts.deadline(digest.size_bytes)):
            yield piece
            left -= len(piece)
            if left < 0:
                return
