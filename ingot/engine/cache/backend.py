"""Define what a shared cache must be able to do, and the ways in which it can fail.

Action results and blobs have the names that they have in the store: `ac` entries are
named by the action's key, `cas` entries by the sha256 of their content. A backend only
moves bytes; `ingot.engine.cache.shared_cache` verifies them and decides what a failure
means for the build.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ingot.engine.actions import Digest
from ingot.engine.digests import chunks

# An action result names some files; anything longer is not an action result.
RESULT_BYTES = 4 << 20

Kind = Literal["ac", "cas"]


class CacheFailure(Exception):
    """The cache could not serve a request, and probably cannot serve the next one."""


class Unreachable(CacheFailure):
    """Nothing responds at the cache's address; this may be temporary."""


class BlobRejected(CacheFailure):
    """The cache does not accept, or cannot deliver, this one blob."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a cache; one that is slower counts as down."""

    connect_s: float = 5.0
    silent_s: float = 15.0  # without a byte
    bytes_per_s: float = 50_000.0  # a phone's link; slower, building again is sooner
    # How long a build waits for a lost server when remote workers need it too.
    return_s: float = 60.0

    def deadline(self, size_bytes: int) -> float:
        """Return when (`time.monotonic`) a transfer of this size must have ended."""
        seconds = self.connect_s + self.silent_s + size_bytes / self.bytes_per_s
        return time.monotonic() + seconds


class CacheBackend(Protocol):
    """The protocol of one shared cache. Methods are thread-safe, raise CacheFailure."""

    # The address without a password: it appears in messages.
    name: str

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the content in pieces; None if the cache does not have it."""

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Upload the file; for an action result, `digest` is the action's key."""

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs to upload: those not there, or too small to ask about."""


def with_deadline(pieces: Iterable[bytes], deadline: float) -> Iterator[bytes]:
    """Yield the pieces.

    Raises: CacheFailure if the deadline passes before the last one.
    """
    for piece in pieces:
        yield piece
        if time.monotonic() > deadline:
            raise CacheFailure("the transfer is too slow")


def read_with_deadline(path: Path, timeouts: Timeouts) -> Iterator[bytes]:
    """Yield the file's content, with the deadline that fits its size."""
    return with_deadline(chunks(path), timeouts.deadline(path.stat().st_size))
