"""Work done beside the build by a few threads, and waited for at its end."""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable

N_THREADS = 4


class UploadQueue:
    """A queue of work; its threads die with the process, whatever they wait for."""

    def __init__(self) -> None:
        """Start no thread: most builds have nothing to send."""
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], None]] = deque()
        self._running = 0
        self._threads: list[threading.Thread] = []

    def add(self, work: Callable[[], None]) -> None:
        """Do the work soon; what it raises is shown, and costs nothing else."""
        with self._changed:
            self._waiting.append(work)
            if len(self._threads) < N_THREADS:
                thread = threading.Thread(target=self._work, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify()

    def finish(self, timeout_s: float | None = None) -> int:
        """Wait for all work; return how much of it is still to do when time is up."""
        with self._changed:
            self._changed.wait_for(lambda: not self._left(), timeout_s)
            return self._left()

    def abandon(self) -> int:
        """Start no more of it; return how much is not done."""
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
