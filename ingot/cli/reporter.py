"""What doit tells of tasks in, lines for people out.

On a terminal, rich shows what runs; elsewhere, and in a log, one line an action as it
ends. An action's own output is shown whole, never mixed with another's.
"""

from __future__ import annotations

import sys
import time
from typing import IO, Any, ClassVar

from doit.exceptions import BaseFail, TaskFailed

from ingot.engine.event_log import EventLog

# More are under way elsewhere; a terminal has 24 lines.
N_BARS = 16


class Reporter:
    """Reports one run; doit calls the methods from its main thread and its workers."""

    desc = "one line an action, progress on a terminal"
    quiet = False
    # The one that doit has made: doit does not tell who asks.
    current: ClassVar[Reporter | None] = None

    def __init__(self, outstream: IO[str], options: dict[str, Any]) -> None:
        """Write to doit's output stream; doit's own options are not used."""
        Reporter.current = self
        self._out = outstream
        self._start = time.monotonic()
        self._total = 0
        self._seen = 0
        counted = ("ran", "restored", "fetched", "up to date", "failed")
        self._counts = dict.fromkeys(counted, 0)
        self._failures: list[tuple[str, str]] = []
        self._progress: Any = None
        self._bars: dict[str, Any] = {}
        self._unmet: list[str] = []
        # Whether anything ended in a way that no action's failure explains.
        self.defective = False
        self._journal = EventLog.current

    def initialize(self, tasks: dict[str, Any], selected: list[str]) -> None:
        """Count the actions that the selected tasks need."""
        pending, needed = list(selected), set()
        while pending:
            name = pending.pop()
            if name not in needed:
                needed.add(name)
                pending.extend(tasks[name].task_dep)
        self._total = sum(1 for name in needed if tasks[name].actions)

    def get_status(self, task: Any) -> None:
        """Say nothing: the check itself takes no time worth showing."""

    def execute_task(self, task: Any) -> None:
        """Show that the action has started."""
        if task.actions and self._journal is not None:
            self._journal.started(task.name)
        if task.actions and not self.quiet and self._out.isatty():
            self._show_running(task.name)

    def ended(self, task: str, source: str, wall_ms: float, log: str) -> None:
        """Tell how an action got its outputs; `log` is what it printed, or empty."""
        self._counts[source] += 1
        if self._journal is not None:
            self._journal.ended(task, source, wall_ms=round(wall_ms, 3))
        seconds = wall_ms / 1e3
        place = f"[{self._seen + 1}/{self._total}]"
        self._line(f"{place} {task}: {source}, {seconds:.1f} s")
        if log and not self.quiet:
            self._line(log.rstrip())

    def add_success(self, task: Any) -> None:
        """Count the action as seen."""
        self._finish(task)

    def skip_uptodate(self, task: Any) -> None:
        """Count the action; a build with nothing to do prints one line."""
        self._counts["up to date"] += 1
        self._seen += 1
        if self._journal is not None:
            self._journal.up_to_date(task.name)

    def skip_ignore(self, task: Any) -> None:
        """Say that the user told doit to ignore the task."""
        self._line(f"{task.name}: ignored")

    def add_failure(self, task: Any, fail: BaseFail) -> None:
        """Show the failure at once and whole; keep it for the summary."""
        self._finish(task)
        if type(fail).__name__ == "UnmetDependency":
            self._unmet.append(task.name)
            return
        self.defective |= not isinstance(fail, TaskFailed)
        self._counts["failed"] += 1
        text = fail.get_msg() if hasattr(fail, "get_msg") else str(fail)
        self._failures.append((task.name, text.strip()))
        if self._journal is not None:
            self._journal.ended(task.name, "failed", message=text.strip())
        self._line(f"[{self._seen}/{self._total}] {task.name}: FAILED")
        if self._progress is not None:
            self._progress.stop()
        print(text.strip(), file=sys.stderr, flush=True)

    def cleanup_error(self, exception: Any) -> None:
        """Show a teardown's failure; ingot has no teardowns of its own."""
        print(exception.get_msg(), file=sys.stderr)

    def runtime_error(self, message: str) -> None:
        """Show doit's own complaint about the task graph."""
        self.defective = True
        print(message, file=sys.stderr)

    def teardown_task(self, task: Any) -> None:
        """Say nothing."""

    def complete_run(self) -> None:
        """Print the summary: failures that are causes first, then the counts."""
        if self._progress is not None:
            self._progress.stop()
        if len(self._failures) > 1:
            names = ", ".join(name for name, _ in self._failures)
            print(f"failed: {names}", file=sys.stderr)
        if self._unmet:
            print(f"not tried: {', '.join(self._unmet)}", file=sys.stderr)
        counts = ", ".join(f"{n} {word}" for word, n in self._counts.items() if n)
        seconds = time.monotonic() - self._start
        done = sum(self._counts.values())
        if done:
            self._line(f"{done} of {self._total} actions: {counts}; {seconds:.2f} s")

    def _finish(self, task: Any) -> None:
        if task.actions:
            self._seen += 1
        bar = self._bars.pop(task.name, None)
        if bar is not None:
            self._progress.remove_task(bar)
            self._progress.update(self._overall, completed=self._seen)

    def _line(self, text: str) -> None:
        if self.quiet:
            return
        if self._progress is not None and self._progress.live.is_started:
            self._progress.console.print(text, markup=False, highlight=False)
        else:
            # One write: threads' lines would share one otherwise.
            self._out.write(f"{text}\n")
            self._out.flush()

    def _show_running(self, name: str) -> None:
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
            self._overall = self._progress.add_task("build", total=self._total)
        self._progress.update(self._overall, completed=self._seen)
        if len(self._bars) == N_BARS:
            return
        self._bars[name] = self._progress.add_task(name, total=None)


class QuietReporter(Reporter):
    """Reports failures only."""

    desc = "failures only"
    quiet = True


class NeededReporter(Reporter):
    """Says nothing where nothing had to be done: a build before something else."""

    desc = "what had to be done"

    def complete_run(self) -> None:
        """Print the summary of a build that did anything."""
        if any(n for word, n in self._counts.items() if word != "up to date"):
            super().complete_run()
