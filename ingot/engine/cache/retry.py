"""A shared cache that is waited for: nothing can be run elsewhere without it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from ingot.engine.actions import Digest
from ingot.engine.cache.backend import CacheBackend, Kind, Unreachable

Answer = TypeVar("Answer")


class RetryingBackend:
    """A remote whose server may go away for a while."""

    def __init__(
        self,
        remote: CacheBackend,
        lost: Callable[[], None],
        wait: Callable[[float], None],
        return_s: float,
    ) -> None:
        """Keep the remote; `lost` is told that its server went away, `wait` waits."""
        self.name = remote.name
        self._remote = remote
        self._lost = lost
        self._wait = wait
        self._return_s = return_s

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the content in pieces; None where the cache has none."""
        return self.patiently(lambda: self._remote.get(kind, digest))

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Send the file."""
        self.patiently(lambda: self._remote.put(kind, digest, path))

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs to send."""
        asked = tuple(digests)
        return self.patiently(lambda: self._remote.missing(asked))

    def patiently(self, ask: Callable[[], Answer]) -> Answer:
        """Return what `ask` returns, asked again while the server is away.

        Raises: CacheFailure where it fails, or nobody answers for long; IngotError once
        stopped.
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
