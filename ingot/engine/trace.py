"""Record what a build does when, by task, phase and thread, and export a profile."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from ingot.engine.actions import stage_of


class Span(NamedTuple):
    """One phase of one action; times are of the monotonic clock."""

    task: str
    phase: str  # "action" is the whole action
    start_s: float
    end_s: float
    thread: int


class Trace:
    """The spans of all threads, in the order in which they ended."""

    def __init__(self) -> None:
        """Start without spans."""
        self.ended: list[Span] = []

    def end(self, task: str, phase: str, start_s: float) -> float:
        """Record a phase that started then and ends now; return the current time."""
        now = time.monotonic()
        self.ended.append(Span(task, phase, start_s, now, threading.get_ident()))
        return now


def chrome_trace(
    spans: list[Span], start_s: float, ends: dict[str, str]
) -> dict[str, Any]:
    """Return the spans in the trace format: one row a thread, phases inside of actions.

    Source: "Trace Event Format", the format's own description; times in microseconds.
    """
    threads = {
        thread: row
        for row, thread in enumerate(dict.fromkeys(span.thread for span in spans), 1)
    }
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "ingot build"}}
    ]
    for row in threads.values():
        about = {"name": f"worker {row}"}
        events.append(
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": about}
        )
    for span in sorted(spans, key=lambda item: (item.start_s, -item.end_s)):
        whole = span.phase == "action"
        # Round both ends: a phase must not end after its action, not even by 1 us.
        start, end = (round((at - start_s) * 1e6) for at in (span.start_s, span.end_s))
        events.append(
            {
                "ph": "X",
                "name": span.task if whole else span.phase,
                "cat": stage_of(span.task) if whole else "phase",
                "pid": 1,
                "tid": threads[span.thread],
                "ts": start,
                "dur": end - start,
                "args": {"task": span.task, "how": ends.get(span.task, "")},
            }
        )
    return {"displayTimeUnit": "ms", "traceEvents": events}
