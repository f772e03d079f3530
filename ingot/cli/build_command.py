"""Build tasks: open store, caches and log, run what is stale, and report it."""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from doit.task import Stream, Task

from ingot.cli import startup
from ingot.cli.commands import (
    FAILED,
    INTERNAL_ERROR,
    INTERRUPTED,
    SENTENCES,
    TASKS,
    Call,
)
from ingot.cli.connections import (
    open_cache,
    open_store,
    open_trust,
    open_workers,
    warn_of_trust,
)
from ingot.cli.doit_commands import USER_ERRORS, report_unexpected
from ingot.cli.json_output import BuildOutput, BuiltAction, BuiltFiles, print_json
from ingot.cli.reporter import Reporter
from ingot.cli.scheduler import Job, Scheduler, needed
from ingot.cli.store_commands import check_limit, record_build
from ingot.cli.tasks import ACTION, Checkout, choose, load
from ingot.cli.variables import check_used
from ingot.cli.weight_notes import baked_models, offer_terms, weight_notes
from ingot.engine import process, sandbox
from ingot.engine.actions import Action, stage_of
from ingot.engine.event_log import EventLog
from ingot.engine.executor import Executor
from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.engine.cache.shared_cache import SharedCache
    from ingot.engine.remote.remote_executor import RemoteExecutor

# Stages whose output people read: it is printed when they end.
PRINTED = ("check", "bench", "bundle")

# Actions that are sent to other machines at once; each is a thread that waits.
IN_FLIGHT = 200

CACHED = "finished actions are cached"


def run(call: Call) -> int:
    """Run tasks; or, with input=..., the built bundle."""
    if any(x in call.variables for x in SENTENCES):
        used = (*TASKS, *SENTENCES)
        check_used(call.variables, used, "doit run input=...")
        from ingot.cli.bundle_commands import run_input

        return run_input(call)
    check_used(call.variables, TASKS, "a build")
    return Build(call, call.words).run()


def build_first(call: Call, *tasks: str) -> int:
    """Build what a command needs; standard output is for the command alone."""
    return Build(call, tasks, first=True).run()


class Build:
    """One build, from a command line to its exit code."""

    def __init__(self, call: Call, words: Sequence[str], first: bool = False) -> None:
        """Prepare to build the named tasks.

        `first` is a build before something else: it reports to standard error, and
        nothing if there was nothing to do.
        """
        self._call = call
        self._words = words
        self._first = first
        self._shared: SharedCache | None = None
        self._remote: RemoteExecutor | None = None
        self._log: EventLog | None = None
        self._reporter: Reporter | None = None
        self._stale: set[str] = set()
        self._notes: tuple[str, ...] = ()  # on the weights of what is built

    def run(self) -> int:
        """Build; return the exit code.

        Raises: IngotError if the command line or the checkout is wrong.
        """
        start = time.monotonic()
        code = INTERNAL_ERROR
        try:
            code = self._stoppable()
        finally:
            if self._log is not None:
                self._log.finish(code)
                if self._log.ends:
                    record_build(self._log, code, start)
            # Nothing is left to stop, and what exits cannot handle an exception.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._call.json and self._log is not None:
            print_json(self._outcome(self._log, code, time.monotonic() - start))
        return code

    def _outcome(self, log: EventLog, code: int, wall_s: float) -> BuildOutput:
        """Return how each action ended, and what was made."""
        not_tried = self._reporter.not_tried_tasks if self._reporter else ()
        ends = {**log.ends, **dict.fromkeys(not_tried, "not tried")}
        actions = (
            BuiltAction(
                task,
                how,
                tuple(log.reasons.get(task, ())),
                log.messages.get(task, ""),
            )
            for task, how in ends.items()
        )
        good = {task for task, how in log.ends.items() if how != "failed"}
        pairs = sorted(
            {task.partition(":")[2] for task in good if stage_of(task) in PRINTED}
        )
        return BuildOutput(
            exit_code=code,
            wall_s=round(wall_s, 3),
            actions=tuple(actions),
            results={pair: _made(log.root, pair, good) for pair in pairs},
            notes=self._notes,
        )

    def _stoppable(self) -> int:
        """Build; if the user or an error stops it, end what runs."""
        stop_on_signals()
        try:
            return self._build()
        except KeyboardInterrupt:
            self._leave()
            print(f"\nstopped; {CACHED}", file=sys.stderr)
            return INTERRUPTED
        except SystemExit as stop:
            self._leave()
            print(f"stopped; {CACHED}", file=sys.stderr)
            return int(stop.code or 0)
        except (IngotError, *USER_ERRORS):
            raise
        except Exception as error:
            self._leave()
            code = report_unexpected(error)
            if code == startup.READER_LEFT:
                # Standard error may still be open.
                text = f"stopped, because the reader closed the output; {CACHED}"
                print(text, file=sys.stderr)
            return code

    def _leave(self) -> None:
        """End the commands that run, and the uploads."""
        process.stop_all()
        if self._shared is not None:
            self._shared.abandon()
        if self._remote is not None:
            self._remote.close()

    def _build(self) -> int:
        call, chosen_threads = self._call, self._call.options["num_process"]
        if chosen_threads is not None and chosen_threads < 0:
            raise IngotError(f"-n {chosen_threads}: expected an integer, 0 or more")
        _defer_garbage_collection()
        check_limit()
        sandbox.probe()
        checkout, tasks = load(call, self._words)
        config = call.doit["task_loader"].load_doit_config()
        words = self._words or config.get("default_tasks") or list(tasks)
        chosen = choose(tasks, words, call.root)
        baked = baked_models(checkout, tasks, chosen)
        if offer_terms(baked.values(), call.root):
            checkout, tasks = load(call, self._words)
            baked = baked_models(checkout, tasks, chosen)
        self._notes = tuple(weight_notes(baked))
        threads = config.get("num_process", n_parallel(call.variables))
        threads = threads if chosen_threads is None else max(chosen_threads, 1)
        # Standard output is for what was asked for: a text, or JSON.
        aside = self._first or call.json
        with _output(call.options["outfile"], aside) as out:
            return self._run_tasks(checkout, tasks, chosen, threads, out)

    def _run_tasks(
        self,
        checkout: Checkout,
        tasks: Mapping[str, Task],
        chosen: Sequence[str],
        threads: int,
        out: IO[str],
    ) -> int:
        given = self._call.options
        store = open_store()
        store.sweep()
        where = self._call.variables.get("executor", "local")
        trust = open_trust(checkout.settings)
        shared = self._shared = open_cache(checkout.settings, store, where, trust)
        remote = self._remote = open_workers(where, shared, store)
        variables = (f"{k}={v}" for k, v in self._call.variables.items())
        log = self._log = EventLog(checkout.root, [*self._words, *variables])
        reporter = Reporter(out, log, given["quiet"], only_work=self._first)
        self._reporter = reporter

        def report(task: str, source: str, wall_ms: float) -> None:
            printed = stage_of(task) in PRINTED
            output = executor.log(task) if printed else ""
            reporter.obtained(task, source, wall_ms, output)

        executor = Executor(checkout.root, store, report, shared, remote, trust)
        # All at once: one by one takes a tenth of a build with nothing to do.
        store.lease(*executor.records.digests())
        log.trace = executor.trace
        unrunnable = checkout.settings.unrunnable
        jobs = {
            name: self._job(task, executor, unrunnable, report)
            for name, task in tasks.items()
        }
        order = needed(jobs, chosen)
        if given["single"]:
            # A group means the tasks that it needs.
            alone = ((name,) if jobs[name].run else jobs[name].needs for name in chosen)
            order = list(dict.fromkeys(chain.from_iterable(alone)))
            jobs = {name: replace(jobs[name], needs=()) for name in order}
        reporter.begin(frozenset(name for name in order if jobs[name].run), threads)
        always, keep_going = given["always"], given["continue"]
        scheduler = Scheduler(jobs, reporter, threads, keep_going, always)
        try:
            failures = scheduler.run(order)
        finally:
            reporter.finish(self._notes)
            warn_of_trust(trust)
        if shared is not None:
            shared.finish()
        if remote is not None:
            remote.close()
        if failures.internal:
            return INTERNAL_ERROR
        return FAILED if failures.names else 0

    def _job(
        self,
        task: Task,
        executor: Executor,
        unrunnable: Mapping[str, str],
        report: Callable[[str, str, float], None],
    ) -> Job:
        """Return the job of doit's task: an action, a group, or the user's own."""
        needs = tuple(task.task_dep)
        action = (task.meta or {}).get(ACTION)
        if action is None:
            own = partial(_run_own, task, report) if task._actions else None
            return Job(task.name, needs, own)
        return Job(
            task.name,
            needs,
            partial(_execute, executor, action, unrunnable),
            partial(self._is_up_to_date, executor, action),
            partial(executor.restore, action),
            # A remote one waits for a worker of its own, each with a thread here.
            action.exclusive and executor.is_local(action),
        )

    def _is_up_to_date(self, executor: Executor, action: Action) -> bool:
        """Return whether the action has nothing to do; if it has, log why."""
        if executor.is_up_to_date(action):
            return True
        from ingot.cli.why_command import explain

        assert self._log is not None
        reasons = explain(action, executor, self._stale)
        self._stale.add(action.task)
        self._log.stale(action.task, reasons)
        return False


def _execute(executor: Executor, action: Action, unrunnable: Mapping[str, str]) -> None:
    try:
        executor.execute(action)
    except IngotError as error:
        reason = unrunnable.get(action.task.partition("@")[2])
        note = f"\n{action.task}: cannot run here: {reason}" if reason else ""
        raise IngotError(f"{error}{note}") from error


def _run_own(task: Task, report: Callable[[str, str, float], None]) -> None:
    """Run a task that the user has added to dodo.py, as doit does; it always runs."""
    start = time.monotonic()
    failure = task.execute(Stream(None))
    if failure is not None:
        raise IngotError(f"{task.name}: {failure.get_msg()}")
    report(task.name, "ran", (time.monotonic() - start) * 1e3)


def _made(root: Path, pair: str, good: set[str]) -> BuiltFiles:
    """Return what a build made of MODEL@TARGET by the tasks that did not fail."""
    folder = root.joinpath("build", *pair.split("@"))
    tables = {
        stage: json.loads((folder / f"{stage}.json").read_bytes())
        if f"{stage}:{pair}" in good
        else None
        for stage in ("check", "bench")
    }
    bundle = str(folder / "bundle") if f"bundle:{pair}" in good else ""
    return BuiltFiles(bundle, **tables)


def _output(path: str | None, aside: bool) -> Any:
    """Return the context of the stream that the build reports to.

    Raises: IngotError if the file of -o cannot be written.
    """
    from contextlib import nullcontext

    if path is None:
        return nullcontext(sys.stderr if aside else sys.stdout)
    try:
        return Path(path).open("w", encoding="utf-8")
    except OSError as error:
        raise IngotError(f"-o {path}: cannot be written: {error.strerror}") from error


def n_parallel(variables: Mapping[str, str]) -> int:
    """Return how many actions run at once: more than cores if they run elsewhere."""
    remote = variables.get("executor", "local") != "local"
    return IN_FLIGHT if remote else len(os.sched_getaffinity(0))


def stop_on_signals() -> None:
    """Make SIGTERM end a build as Ctrl-C does: children die, results stay cached."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(number: int, frame: object) -> None:
    process.stop_all()
    raise SystemExit(128 + number)


def _defer_garbage_collection() -> None:
    """Collect cycles rarely: a build needs nearly all its objects to the end.

    Collecting takes a twentieth of a build with nothing to do, and once more when the
    process ends a tenth.
    """
    gc.set_threshold(100_000)
    atexit.register(_freeze)


def _freeze() -> None:
    """Collect no cycles at the end, unless IREE is loaded: it must free its objects."""
    if "iree" not in sys.modules:
        gc.freeze()
