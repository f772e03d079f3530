"""Recorded and current actions in, the fields that differ out.

The recorded action says everything that its result depends on, so the difference of the
two is the whole reason; an input that another stale action makes is named as such.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.cli.action_changes import differences
from ingot.cli.commands import Call
from ingot.cli.connections import Connections
from ingot.cli.reporter import counted
from ingot.cli.store import open_store
from ingot.engine.actions import Action, Output, ResolvedAction, Source
from ingot.engine.digests import identify
from ingot.engine.executor import Executor
from ingot.engine.records import TaskRecord
from ingot.engine.store_survey import latest_results, read_messages
from ingot.errors import IngotError
from ingot.project.catalogue import Catalogue, Plan, asked, read
from ingot.project.selection import refuse_unreadable, select

if TYPE_CHECKING:
    from ingot.engine.cache.shared_cache import SharedCache

# Who has a result, by how it would come from there.
HOLDERS = {"would be restored": "the store", "would be fetched": "the shared cache"}

# After these an action's outputs may be others.
RUNS = ("would run", "may run")

NEVER = "it has not run in this checkout, or its last run did not end"

# Tasks above that are named in one line; more are counted.
MOST_TASKS = 3

FOLLOWS = "it follows "


def why(call: Call) -> int:
    """Print the reasons of every stale action that is selected; run nothing."""
    variables = dict(call.variables)
    catalogue = read(call.root, asked(variables, call.words))
    plan, store = catalogue.plan, open_store()
    executor = Executor(call.root, store, lambda *_: None)
    where = variables.get("executor", "local")
    connections = Connections()
    elsewhere = Elsewhere(
        executor, lambda: connections.open_cache(catalogue.settings, store, where)
    )
    names = matching(catalogue, call.words) or plan.needed(
        plan.ends(select(catalogue, variables))
    )
    try:
        print_reasons(plan, names, executor, elsewhere)
    finally:
        connections.finish()
    return 0


def print_reasons(
    everything: Plan, names: set[str], executor: Executor, elsewhere: Elsewhere
) -> None:
    """Print what a build would do with the actions of these names, and why."""
    stale: set[str] = set()
    found: Counter[str] = Counter()
    # What is above a named one is the reason why it would run, though not asked for.
    needed = everything.needed(names)
    for action in everything.actions:
        task = action.task
        if task not in needed:
            continue
        how, reasons = foresee(action, executor, stale, elsewhere)
        if how in RUNS:
            stale.add(task)
        if not how or task not in names:
            continue
        if how in HOLDERS:
            found[how] += 1
            print(f"{task} {how}: {HOLDERS[how]} has its result")
        elif how == "may run" and all(map(is_follower, reasons)):
            print(f"{task} may run: {_in_short(reasons)}")
            continue
        else:
            print(f"{task} {how}:")
        for reason in reasons:
            print(f"  {reason}")
    if not stale & names:
        n_current = len(names) - found.total()
        verb = "is" if n_current == 1 else "are"
        current = f"{counted(n_current, 'action')} {verb} up to date"
        others = [f"{count} {how}" for how, count in found.items()]
        print(f"nothing would run: {', '.join([current, *others])}")


def foresee(
    action: Action, executor: Executor, stale: set[str], elsewhere: Elsewhere
) -> tuple[str, list[str]]:
    """Return what a build would do with the action, and why; "" where nothing.

    `stale` are those before it that would run, or may: their outputs are not known.
    """
    task = action.task
    recorded = executor.records.get(task) is not None
    reasons = explain(action, executor, stale) if recorded else []
    if recorded and not reasons:
        return "", []
    follows = _above(action, stale)
    if not follows and (how := elsewhere.has(action)):
        return how, reasons
    if not recorded:
        reasons = explain(action, executor, stale, elsewhere)
    # Outputs above may come out as before, or as they were for another checkout.
    may = follows and (
        all(map(is_follower, reasons))
        or elsewhere.has(action)
        or (not recorded and elsewhere.knows(task))
    )
    return "may run" if may else "would run", reasons


class Elsewhere:
    """What other checkouts and machines that share store or cache have made."""

    def __init__(
        self, executor: Executor, connect: Callable[[], SharedCache | None]
    ) -> None:
        """Look at the executor's store and the shared cache when first asked."""
        self._executor = executor
        self._shared = cache(connect)
        self._last: dict[str, tuple[float, str]] | None = None

    def has(self, action: Action) -> str:
        """Return how the result would come, or ""; its outputs are known then."""
        from ingot.engine.keys import encode_action

        try:
            key = encode_action(self._executor.resolve(action)).key
        except (OSError, IngotError):
            return ""
        result, how = self._executor.store.action(key), "would be restored"
        if result is None and (shared := self._shared()):
            result, how = shared.look_up(key, action.outputs), "would be fetched"
        if result is None:
            return ""
        self._executor.assume_outputs(action.task, result.outputs)
        return how

    def knows(self, task: str) -> bool:
        """Return whether a result of the task may be there, of whatever inputs."""
        return task in self._newest() or self._shared() is not None

    def differences(self, action: Action, bound: ResolvedAction) -> list[str]:
        """Return how the action differs from the last one of that task, if any is kept.

        A stored action says everything that its result depends on, so it answers as
        well as a record of this checkout.
        """
        from ingot.engine import results
        from ingot.engine.protobuf_wire import CorruptMessage

        at_s, key = self._newest().get(action.task, (0.0, ""))
        where = "result in the store, {}, last used {}"
        shared = self._shared()
        last = shared.last_build(action.task) if shared else None
        try:
            if last is not None and last.at_s > at_s and last.key != key:
                at_s, key, messages = last.at_s, last.key, last.messages
                where = "build elsewhere, {}, of {}"
            elif key:
                messages = read_messages(self._executor.store.root, key)
            else:
                return []
            old = results.decode_action(key, messages)
        except (OSError, CorruptMessage):
            return []
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))
        root, kept = self._executor.root, partial(results.unpack_texts, messages)
        told = f"against its last {where.format(key[:12], day)}:"
        return [told, *differences(root, old, bound, action, kept)]

    def _newest(self) -> dict[str, tuple[float, str]]:
        if self._last is None:
            self._last = latest_results(self._executor.store.root)
        return self._last


def explain(
    action: Action,
    executor: Executor,
    stale: set[str],
    elsewhere: Elsewhere | None = None,
) -> list[str]:
    """Return why the action is not current; empty where it is.

    What it gets from `stale` ones is left out: it follows them. Where this checkout
    has no record of it, it is compared with what is `elsewhere`.
    """
    record = executor.records.get(action.task)
    follows = [f"{FOLLOWS}{task}" for task in _above(action, stale)]
    if record is None and (follows or elsewhere is None):
        return [NEVER, *follows]
    inputs = tuple(item for item in action.inputs if not _comes_from(item[1], stale))
    try:
        bound = executor.resolve(replace(action, inputs=inputs))
    except OSError as error:
        return [f"input {error.filename}: {error.strerror}", *follows]
    except IngotError as error:
        return [error.message, *follows]
    if record is None:
        return [NEVER, *(elsewhere.differences(action, bound) if elsewhere else [])]
    unknown = {path for path, source in action.inputs if _comes_from(source, stale)}
    known = tuple(item for item in record.resolved.inputs if item[0] not in unknown)
    old = replace(record.resolved, inputs=known)
    kept = partial(_texts, executor, record)
    reasons = differences(executor.root, old, bound, action, kept)
    reasons += _shown(record, executor.root)
    for path, digest in record.outputs:
        if not executor.store.holds(digest):
            reasons.append(f"output {path}: {digest} is not in the store")
    return reasons + follows


def is_follower(reason: str) -> bool:
    """Return whether the reason is an action above alone."""
    return reason.startswith(FOLLOWS)


def _above(action: Action, stale: set[str]) -> list[str]:
    sources = [source for _, source in action.inputs]
    return sorted({s.task for s in sources if isinstance(s, Output)} & stale)


def _comes_from(source: Source, tasks: set[str]) -> bool:
    return isinstance(source, Output) and source.task in tasks


def _in_short(reasons: list[str]) -> str:
    """Return in one line what the action follows."""
    tasks = [reason.removeprefix(FOLLOWS) for reason in reasons]
    more = len(tasks) - MOST_TASKS
    told = ", ".join(tasks[:MOST_TASKS] if more > 0 else tasks)
    return f"{FOLLOWS}{told}" + (f" and {more} more" if more > 0 else "")


def _texts(executor: Executor, record: TaskRecord) -> dict[str, str]:
    """Return the texts that the recorded action had as inputs; those that are kept."""
    from ingot.engine import results
    from ingot.engine.protobuf_wire import CorruptMessage

    try:
        return results.unpack_texts(read_messages(executor.store.root, record.key))
    except (OSError, CorruptMessage):
        return {}


def _shown(record: TaskRecord, root: Path) -> list[str]:
    lines = []
    for path, identity in record.exported:
        try:
            if identify(os.stat(root / path)) != identity:
                lines.append(f"{path} was changed; it is restored from the store")
        except OSError:
            lines.append(f"{path} is gone; it is restored from the store")
    return lines


def matching(catalogue: Catalogue, patterns: Iterable[str]) -> set[str]:
    """Return the tasks that the patterns name.

    Raises: IngotError for one that names none, with the errors of a model or target
        that cannot be read.
    """
    from ingot.cli.tasks import unknown_task

    names = [action.task for action in catalogue.plan.actions]
    matches: set[str] = set()
    for pattern in patterns:
        found = [name for name in names if fnmatch(name, pattern)]
        if not found:
            refuse_unreadable(catalogue, pattern)
            raise unknown_task(pattern, names)
        matches.update(found)
    return matches
