"""What a shared cache must be able to do, and the ways in which it may fail.

Action results and blobs are named as in the store: `ac` by the action's key, `cas` by
the sha256 of the content. A remote moves bytes; `ingot.engine.cache.shared_cache`
verifies them and decides what a failure means.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from ingot.engine.actions import Digest
from ingot.engine.digests import chunks

Kind = Literal["ac", "cas"]


class CacheFailure(Exception):
    """The cache cannot do what was asked, nor, it is to be feared, the next thing."""


class Unreachable(CacheFailure):
    """Nobody answers there; that may pass."""


class BlobRejected(CacheFailure):
    """The cache does not take this one blob; it may take others."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a cache is waited for: one that is slower is as good as down."""

    connect_s: float = 5.0
    silent_s: float = 15.0  # without a byte
    bytes_per_s: float = 50_000.0  # a phone's link; slower, building again is sooner
    # Where workers need it too, until it is back.
    return_s: float = 60.0

    def deadline(self, size_bytes: int) -> float:
        """Return when (`time.monotonic`) a transfer of this size must have ended."""
        seconds = self.connect_s + self.silent_s + size_bytes / self.bytes_per_s
        return time.monotonic() + seconds


class CacheBackend(Protocol):
    """One shared cache. Every method may raise CacheFailure, and is thread-safe."""

    # Where it is, without a password: this is shown.
    name: str

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the content in pieces; None where the cache has none."""

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Send the file; of an action result the digest is the action's key."""

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs to send: those that are not there, or not worth asking."""


def with_deadline(pieces: Iterable[bytes], deadline: float) -> Iterator[bytes]:
    """Yield the pieces.

    Raises: CacheFailure where the deadline passes first.
    """
    for piece in pieces:
        yield piece
        if time.monotonic() > deadline:
            raise CacheFailure("it is too slow")


def read_with_deadline(path: Path, timeouts: Timeouts) -> Iterator[bytes]:
    """Yield the file's content, as `with_deadline`."""
    return with_deadline(chunks(path), timeouts.deadline(path.stat().st_size))
