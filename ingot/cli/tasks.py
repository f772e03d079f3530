"""The plan's actions in, doit's task dictionaries out.

Every action of the models that the command is about is a task, so that any of them can
be named; the variables choose what the group tasks (`build`, `check`, ...) stand for.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from doit import doit_cmd, get_initial_workdir
from doit.exceptions import InvalidDodoFile, TaskFailed

from ingot.cli import build_log, cache_options
from ingot.cli.doit_task import ActionTask, Current, Step
from ingot.cli.reporter import Reporter
from ingot.cli.user_store import refuse_limit, store
from ingot.engine import process
from ingot.engine.actions import Action, Output, stage_of
from ingot.engine.event_log import EventLog
from ingot.engine.executor import Executor
from ingot.errors import IngotError
from ingot.project.catalogue import STAGES, asked, read
from ingot.project.options import refuse_unknown
from ingot.project.selection import select

# Stages whose output people read: it is shown when they end.
SHOWN_LOGS = ("check", "bench", "bundle")

# Actions that other machines are asked for at once; each is a thread that waits.
IN_FLIGHT = 200


class Front:
    """One command's view: what is selected, the plan, the executor."""

    named: ClassVar[tuple[str, ...]] = ()  # tasks on the command line

    def __init__(self, root: Path) -> None:
        """Load, select and plan; every error of the user's is doit's kind of error."""
        try:
            if not os.path.samefile(get_initial_workdir() or root, root):
                # There doit finds the commands that pyproject.toml declares.
                raise IngotError("run doit in the checkout's folder", f"cd {root}")
            variables = dict(doit_cmd._CMDLINE_VARS or {})
            refuse_unknown(variables)
            refuse_limit()
            process.ask_sandbox()
            catalogue = read(root, asked(variables, Front.named))
            self.selection = select(catalogue, variables)
            self.plan = catalogue.plan
            self.unrunnable = catalogue.settings.unrunnable
            for name, reason in self.selection.skipped:
                print(f"target {name} is left out: {reason}", file=sys.stderr)
            if models := self.plan.compiled_only(self.selection):
                names = ", ".join(models)
                print(
                    f"compiled only, their weights are splats: {names}", file=sys.stderr
                )
            kept = store()
            kept.sweep()
            where = variables.get("executor", "local")
            shared = cache_options.open_cache(catalogue.settings, kept, where)
            remote = cache_options.open_remote(where, shared, kept)
            build_log.begin(root)
            self.executor = Executor(root, kept, self._ended, shared, remote)
            # At once: one by one, it is a tenth of a build with nothing to do.
            kept.lease(*self.executor.records.digests())
            self._stale: set[str] = set()
            if EventLog.current is not None:
                EventLog.current.trace = self.executor.trace
        except IngotError as error:
            raise InvalidDodoFile(str(error)) from None

    def tasks(self, stage: str) -> Iterator[ActionTask | dict[str, Any]]:
        """Yield the stage's tasks, and the group of those that are selected."""
        for action in self.plan.actions:
            if stage_of(action.task) == stage:
                yield self._task(action)
        chosen = self.plan.selected(stage, self.selection)
        yield {
            "basename": stage,
            "actions": None,
            "task_dep": list(chosen),
            "doc": STAGES[stage],
        }

    def build(self) -> dict[str, Any]:
        """Return the task that stands for everything up to the bundle."""
        return {
            "actions": None,
            "task_dep": self.plan.ends(self.selection),
        }

    def _task(self, action: Action) -> ActionTask:
        needed = {s.task for _, s in action.inputs if isinstance(s, Output)}
        step = Step(self._perform, self.executor.restore, action)
        current = Current(self._is_current, action)
        # Elsewhere it waits for a worker of its own, with a thread here for each.
        alone = action.exclusive and self.executor.is_local(action)
        return ActionTask(step, current, sorted(needed), alone)

    def _is_current(self, action: Action) -> bool:
        """Return whether the action has nothing to do; where it has, log why."""
        current = self.executor.is_up_to_date(action)
        if not current and EventLog.current is not None:
            from ingot.cli.why import explain

            reasons = explain(action, self.executor, self._stale)
            self._stale.add(action.task)
            EventLog.current.stale(action.task, reasons)
        return current

    def _perform(self, action: Action) -> TaskFailed | None:
        try:
            self.executor.execute(action)
        except IngotError as error:
            reason = self.unrunnable.get(action.task.partition("@")[2])
            note = f"\n{action.task}: cannot run here: {reason}" if reason else ""
            return TaskFailed(f"{error}{note}")
        return None

    def _ended(self, task: str, source: str, wall_ms: float) -> None:
        shown = stage_of(task) in SHOWN_LOGS
        log = self.executor.log(task) if shown else ""
        if Reporter.current is not None:
            Reporter.current.ended(task, source, wall_ms, log)


def n_parallel() -> int:
    """Return how many actions are under way at once: elsewhere, more than cores."""
    is_remote = (doit_cmd._CMDLINE_VARS or {}).get("executor", "local") != "local"
    return IN_FLIGHT if is_remote else len(os.sched_getaffinity(0))


def stop_on_signals() -> None:
    """Make SIGTERM end the build as Ctrl-C does: children die, the rest is kept."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> None:
    process.stop_all()
    raise SystemExit(128 + number)
