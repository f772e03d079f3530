"""Report a build: one line for each action, progress on a terminal, a summary.

On a terminal, one progress bar counts the actions, names what runs and estimates the
time left; elsewhere, and in a log, each action has a line when it ends. The output of
an action is printed whole, never mixed with another's.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import IO, Any

from ingot.engine.actions import stage_of
from ingot.engine.event_log import EventLog, last_durations_s
from ingot.errors import counted

# Actions that a progress bar names; a remote build has more under way.
N_NAMED = 2

# How an action may end, in the order of the summary.
ENDS = ("ran", "restored", "fetched", "up to date", "failed")


class Reporter:
    """Reports one build to people and to its log."""

    def __init__(
        self, out: IO[str], log: EventLog, quiet: bool = False, only_work: bool = False
    ) -> None:
        """Write to `out`.

        `quiet` prints failures only; `only_work` leaves out the summary of a build that
        had nothing to do.
        """
        self._out = out
        self._log = log
        self._quiet = quiet
        self._only_work = only_work
        self._start = time.monotonic()
        self._actions: frozenset[str] = frozenset()
        self._seen = 0
        self._failures: list[str] = []
        self.not_tried_tasks: list[str] = []
        # Threads tell when an action starts.
        self._lock = threading.Lock()
        self._progress: Any = None
        self._running: dict[str, None] = {}
        self._unseen: set[str] = set()
        self._durations_s: dict[str, float] = {}
        self._threads = 1

    def begin(self, actions: frozenset[str], threads: int = 1) -> None:
        """Set the actions to count, which a group is not, and how many run at once."""
        self._actions = actions
        self._unseen = set(actions)
        self._threads = threads

    def started(self, task: str) -> None:
        """Show that an action has started."""
        self._log.started(task)
        if not self._quiet and self._out.isatty():
            with self._lock:
                self._show_running(task)

    def obtained(self, task: str, source: str, wall_ms: float, output: str) -> None:
        """Report how an action got its result; `output` is what it printed, or ""."""
        self._log.ended(task, source, wall_ms=round(wall_ms, 3))
        position = f"[{self._seen + 1}/{len(self._actions)}]"
        self._line(f"{position} {task}: {source}, {wall_ms / 1e3:.1f} s")
        if output:
            self._line(output.rstrip())

    def up_to_date(self, task: str) -> None:
        """Count the action; a build with nothing to do prints one line."""
        self._seen += 1
        self._unseen.discard(task)
        self._log.up_to_date(task)

    def succeeded(self, task: str) -> None:
        """Count the action as seen."""
        self._finish(task)

    def failed(self, task: str, text: str) -> None:
        """Print the whole failure at once; remember its name for the summary."""
        self._finish(task)
        self._failures.append(task)
        self._log.ended(task, "failed", message=text.strip())
        self._line(f"[{self._seen}/{len(self._actions)}] {task}: FAILED")
        if self._progress is not None:
            self._progress.stop()
        print(text.strip(), file=sys.stderr, flush=True)

    def not_tried(self, task: str) -> None:
        """Remember a task that did not run because one that it needs failed."""
        self.not_tried_tasks.append(task)

    def finish(self, notes: Iterable[str] = ()) -> None:
        """Print the summary: the failures, what they prevented, the counts, notes."""
        if self._progress is not None:
            self._progress.stop()
        if len(self._failures) > 1:
            print(f"failed: {', '.join(self._failures)}", file=sys.stderr)
        if self.not_tried_tasks:
            print(f"not tried: {', '.join(self.not_tried_tasks)}", file=sys.stderr)
        found = self._log.counts
        done = found.total()
        if not done or (self._only_work and found["up to date"] == done):
            return
        counts = ", ".join(f"{found[how]} {how}" for how in ENDS if found[how])
        seconds = time.monotonic() - self._start
        total = len(self._actions)
        self._line(f"{done} of {counted(total, 'action')}: {counts}; {seconds:.2f} s")
        for note in notes:
            self._line(note)

    def _finish(self, task: str) -> None:
        self._seen += task in self._actions
        self._unseen.discard(task)
        with self._lock:
            self._running.pop(task, None)
            if self._progress is not None:
                self._show_progress()

    def _line(self, text: str) -> None:
        if self._quiet:
            return
        if self._progress is not None and self._progress.live.is_started:
            self._progress.console.print(text, markup=False, highlight=False)
        else:
            # One write: otherwise the lines of two threads could mix.
            self._out.write(f"{text}\n")
            self._out.flush()

    def _show_running(self, task: str) -> None:
        self._running[task] = None
        if self._progress is None:
            from rich.console import Console
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeElapsedColumn,
            )
            from rich.table import Column

            self._durations_s = last_durations_s(self._log.root)
            self._progress = Progress(
                MofNCompleteColumn(),
                BarColumn(bar_width=20),
                TimeElapsedColumn(),
                # One line, however long the names are.
                TextColumn("{task.description}", table_column=Column(no_wrap=True)),
                console=Console(file=self._out),
                transient=True,
            )
            self._progress.start()
            self._bar = self._progress.add_task("", total=len(self._actions))
        self._show_progress()

    def _show_progress(self) -> None:
        left_s = time_left_s(frozenset(self._unseen), self._durations_s, self._threads)
        words = [] if left_s is None else [f"about {_clock(left_s)} left"]
        running = tuple(self._running)
        words += [*running[:N_NAMED]]
        words += [f"{len(running) - N_NAMED} more"] if len(running) > N_NAMED else []
        self._progress.update(
            self._bar, completed=self._seen, description=", ".join(words)
        )


def time_left_s(
    unseen: frozenset[str], durations_s: Mapping[str, float], threads: int
) -> float | None:
    """Return how long the actions will take, by how long they took; None if unknown.

    An action that never ran counts as the mean of its stage. Those that turn out to be
    up to date, or restored, make the build end earlier.
    """
    of_stages: defaultdict[str, list[float]] = defaultdict(list)
    for task, seconds in durations_s.items():
        of_stages[stage_of(task)].append(seconds)
    if any(stage_of(task) not in of_stages for task in unseen):
        return None
    means = {stage: sum(x) / len(x) for stage, x in of_stages.items()}
    left = sum(durations_s.get(task, means[stage_of(task)]) for task in unseen)
    return left / max(threads, 1)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"
