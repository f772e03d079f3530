"""Report a build: one line for each action, progress on a terminal, a summary.

On a terminal, rich shows what runs; elsewhere, and in a log, each action has a line
when it ends. The output of an action is printed whole, never mixed with another's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from typing import IO, Any

from ingot.engine.event_log import EventLog
from ingot.errors import counted

# A remote build has more under way; a terminal has 24 lines.
N_BARS = 16

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
        self._progress: Any = None
        self._bars: dict[str, Any] = {}

    def begin(self, actions: frozenset[str]) -> None:
        """Set the actions to count; a group is not one."""
        self._actions = actions

    def started(self, task: str) -> None:
        """Show that an action has started."""
        self._log.started(task)
        if not self._quiet and self._out.isatty():
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
        bar = self._bars.pop(task, None)
        if bar is not None:
            self._progress.remove_task(bar)
            self._progress.update(self._overall, completed=self._seen)

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
        if self._progress is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(file=self._out),
                transient=True,
            )
            self._progress.start()
            self._overall = self._progress.add_task("build", total=len(self._actions))
        self._progress.update(self._overall, completed=self._seen)
        if len(self._bars) < N_BARS:
            self._bars[task] = self._progress.add_task(task, total=None)
