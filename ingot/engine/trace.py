"""What a build does when, by task, phase and thread."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple


class Span(NamedTuple):
    """One phase of one action; times are of the monotonic clock."""

    task: str
    phase: str  # "action" is the whole of it
    start_s: float
    end_s: float
    thread: int


class Trace:
    """Trace as they end, of all threads."""

    def __init__(self) -> None:
        """Start with none."""
        self.ended: list[Span] = []

    def end(self, task: str, phase: str, start_s: float) -> float:
        """Keep the phase that began then and ends now; return now."""
        now = time.monotonic()
        self.ended.append(Span(task, phase, start_s, now, threading.get_ident()))
        return now
