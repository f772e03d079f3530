"""Failures of a shared cache in; out, what it is still used for, each said once."""

from __future__ import annotations

import threading
from collections.abc import Callable

# A cache with more damage than this is not worth asking.
N_CORRUPT = 10


class CacheHealth:
    """What one cache is still asked and sent; safe for several threads."""

    def __init__(self, name: str, warn: Callable[[str], None], writes: bool) -> None:
        """Trust it; without `writes` nothing is sent there."""
        self.reads = True
        self.writes = writes
        self._name = name
        self._warn = warn
        self._lock = threading.Lock()
        self._said: set[str] = set()
        self._n_damaged = 0

    def damage(self, what: str) -> None:
        """Say what is damaged; too much of it, and the cache is asked no more."""
        self.say(f"{what} is damaged there; dropped, it is made again")
        self._n_damaged += 1
        if self._n_damaged > N_CORRUPT:
            self.stop("read", "too much of it is damaged")

    def stop(self, how: str, reason: str) -> None:
        """Ask no more, or send no more; what cannot be read is not written either."""
        with self._lock:
            was = self.reads if how == "read" else self.writes
            self.writes = False
            if how == "read":
                self.reads = False
        if was:
            without = "without it" if how == "read" else "and sends nothing there"
            self.say(f"{reason}; the build goes on {without}")

    def say(self, text: str) -> None:
        """Say it, unless it was said before."""
        with self._lock:
            if text in self._said:
                return
            self._said.add(text)
        self._warn(f"shared cache {self._name}: {text}")
