"""Write the log of a build: its events as they happen, and a profile of its time.

`build/.ingot/builds/<start>/` gets `events.jsonl`, with a line for each event, written
at once so that a killed build has its log too; and at the end `profile.json`, in the
trace format that Perfetto and chrome://tracing read.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from ingot.engine import json_lines
from ingot.engine.actions import stage_of

SCHEMA = "ingot.events.v1"
FOLDER = "build/.ingot/builds"
# How many builds' logs are left; `ingot.project.history` keeps figures of all builds.
N_KEPT = 50


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


class EventLog:
    """The log of one build."""

    def __init__(self, root: Path, words: list[str]) -> None:
        """Open the log; if it cannot be written, the build continues without one."""
        self.root, self.words = root, words
        self.trace = Trace()
        self.started_s = time.time()
        self.ends: dict[str, str] = {}  # task: how it got its outputs
        self.reasons: dict[str, list[str]] = {}  # task: why it was not up to date
        self.messages: dict[str, str] = {}  # task: why it failed
        self._start = time.monotonic()
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self.started_s))
        self.folder = root / FOLDER / f"{stamp}-{os.getpid()}"
        # Lines are in the order of their times.
        self._lock = threading.Lock()
        self._handle = -1
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True)
            path = self.folder / "events.jsonl"
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.note("build started", schema=SCHEMA, words=words, at=self.started_s)

    @property
    def counts(self) -> Counter[str]:
        """Return how many actions ended in which way."""
        return Counter(self.ends.values())

    def note(self, event: str, **facts: Any) -> None:
        """Write an event; one that cannot be written is lost."""
        with self._lock, contextlib.suppress(OSError):
            if self._handle < 0:
                return
            at_ms = round((time.monotonic() - self._start) * 1e3, 3)
            line = json.dumps({"event": event, "at_ms": at_ms, **facts})
            # One write for each line, so that a kill leaves whole lines.
            os.write(self._handle, f"{line}\n".encode())

    def started(self, task: str) -> None:
        """Log that an action has started."""
        self.note("action started", task=task, stage=stage_of(task))

    def stale(self, task: str, reasons: list[str]) -> None:
        """Log why an action is not up to date."""
        self.reasons[task] = reasons
        self.note("action stale", task=task, reasons=reasons)

    def ended(self, task: str, how: str, **facts: Any) -> None:
        """Log how an action got its outputs: "ran", "restored", "failed", ..."""
        self.ends[task] = how
        if "message" in facts:
            self.messages[task] = facts["message"]
        self.note("action ended", task=task, how=how, **facts)

    def up_to_date(self, task: str) -> None:
        """Count an action that is up to date; one last event lists all of them."""
        self.ends[task] = "up to date"

    def finish(self, exit_code: int) -> None:
        """Write the last event and the profile; delete the logs of old builds."""
        current = [task for task, how in self.ends.items() if how == "up to date"]
        self.note("up to date", tasks=current)
        wall_ms = round((time.monotonic() - self._start) * 1e3, 3)
        counts = dict(sorted(self.counts.items()))
        self.note("build ended", exit_code=exit_code, counts=counts, wall_ms=wall_ms)
        if self._handle < 0:
            return
        with self._lock:
            # A later event would otherwise go to another file with this number.
            handle, self._handle = self._handle, -1
        with contextlib.suppress(OSError):
            os.close(handle)
            profile = chrome_trace(self.trace.ended, self._start, self.ends)
            text = json.dumps(profile, separators=(",", ":"))
            (self.folder / "profile.json").write_text(text, encoding="utf-8")
            for old in sorted(self.folder.parent.iterdir())[:-N_KEPT]:
                shutil.rmtree(old, ignore_errors=True)


def last_durations_s(root: Path) -> dict[str, float]:
    """Return how long each action took when it last ran, by the logs that are left."""
    found: dict[str, float] = {}
    for folder in sorted((root / FOLDER).glob("*")):
        for line in json_lines.read(folder / "events.jsonl"):
            if line.get("event") == "action ended" and line.get("how") == "ran":
                found[str(line["task"])] = float(line.get("wall_ms", 0.0)) / 1e3
    return found


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
