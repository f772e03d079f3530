"""Recorded and current actions in, the fields that differ out.

The recorded action says everything that its result depends on, so the difference of the
two is the whole reason; an input that another stale action makes is named as such.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.catalogue import Catalogue, Plan, asked, read
from ingot.edges.digests import identify
from ingot.edges.records import Record
from ingot.edges.survey import blob_path, last_results
from ingot.errors import IngotError
from ingot.executor import Executor
from ingot.front import sharing
from ingot.front.tasks import store
from ingot.selection import refuse_unreadable, select
from ingot.values import Action, BoundAction, Output

if TYPE_CHECKING:
    from ingot.edges.shared.cache import SharedCache

# Who has a result, by how it would come from there.
HOLDERS = {"restored": "the store", "fetched": "the shared cache"}


def explain_all(root: Path, variables: dict[str, str], patterns: list[str]) -> int:
    """Print the reasons of every stale action that is selected; return 0."""
    catalogue = read(root, asked(variables, patterns))
    everything = catalogue.plan
    kept = store()
    executor = Executor(root, kept, lambda *_: None)
    where = variables.get("executor", "local")
    elsewhere = Elsewhere(
        executor, lambda: sharing.open_cache(catalogue.settings, kept, where)
    )
    names = chosen(catalogue, patterns) or everything.needed(
        everything.ends(select(catalogue, variables))
    )
    try:
        print_reasons(everything, names, executor, elsewhere)
    finally:
        sharing.finish()
    return 0


def print_reasons(
    everything: Plan, names: set[str], executor: Executor, elsewhere: Elsewhere
) -> None:
    """Print why the actions of these names would run, or that none would."""
    stale: set[str] = set()
    found: Counter[str] = Counter()
    # What is above a named one is the reason why it would run, though not asked for.
    needed = everything.needed(names)
    for action in everything.actions:
        task = action.task
        if task not in needed:
            continue
        if executor.records.get(task) is None and (how := elsewhere.has(action)):
            if task in names:
                print(f"{task} would be {how}: {HOLDERS[how]} has its result")
                found[how] += 1
            continue
        reasons = explain(action, executor, stale, elsewhere)
        if reasons:
            stale.add(task)
        if reasons and task in names:
            print(f"{task} would run:")
            for reason in reasons:
                print(f"  {reason}")
    if not stale & names:
        current = f"{len(names) - found.total()} actions are up to date"
        others = [f"{count} would be {how}" for how, count in found.items()]
        print(f"nothing would run: {', '.join([current, *others])}")


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
        from ingot.keys import encode

        try:
            key = encode(self._executor.bound(action)).key
        except (OSError, IngotError):
            return ""
        result, how = self._executor.store.action(key), "restored"
        if result is None and (shared := self._shared()):
            result, how = shared.look(key, action.outputs), "fetched"
        if result is None:
            return ""
        self._executor.foresee(action.task, result.outputs)
        return how

    def differences(self, action: Action, bound: BoundAction) -> list[str]:
        """Return how the action differs from the last one of that task, if any is kept.

        A stored action says everything that its result depends on, so it answers as
        well as a record of this checkout.
        """
        from ingot.edges import results
        from ingot.edges.message import Damaged

        root = self._executor.store.root
        if self._last is None:
            self._last = last_results(root)
        at_s, key = self._last.get(action.task, (0.0, ""))
        where = "result in the store, {}, last used {}"
        shared = self._shared()
        last = shared.last(action.task) if shared else None
        if last is not None and last.at_s > at_s and last.key.hash != key:
            at_s, key = last.at_s, last.key.hash
            where = "build elsewhere, {}, of {}"
        if not key:
            return []
        try:
            old, _ = results.spelt_out(
                key, lambda name: blob_path(root, name).read_bytes()
            )
        except (OSError, Damaged):
            return []
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))
        told = f"against its last {where.format(key[:12], day)}:"
        return [told, *differences(old, bound)]


def explain(
    action: Action,
    executor: Executor,
    stale: set[str],
    elsewhere: Elsewhere | None = None,
) -> list[str]:
    """Return why the action is not current; empty where it is.

    Where this checkout has no record of it, it is compared with what is `elsewhere`.
    """
    record = executor.records.get(action.task)
    above = sorted(
        {
            source.task
            for _, source in action.inputs
            if isinstance(source, Output) and source.task in stale
        }
    )
    never = "it has not run in this checkout, or its last run did not end"
    if above:
        follows = [f"it follows {task}" for task in above]
        return follows if record is not None else [never, *follows]
    if record is None and elsewhere is None:
        return [never]
    try:
        bound = executor.bound(action)
    except OSError as error:
        return [f"input {error.filename}: {error.strerror}"]
    except IngotError as error:
        return [error.message]
    if record is None:
        return [never, *(elsewhere.differences(action, bound) if elsewhere else [])]
    reasons = differences(record.bound, bound) + _shown(record, executor.root)
    for path, digest in record.outputs:
        if not executor.store.holds(digest):
            reasons.append(f"output {path}: {digest} is not in the store")
    return reasons


def differences(old: BoundAction, new: BoundAction) -> list[str]:
    """Return one line for each field that differs, old value first."""
    lines = []
    if old.argv != new.argv:
        gone = [word for word in old.argv if word not in new.argv]
        come = [word for word in new.argv if word not in old.argv]
        if not gone and not come:
            lines.append(f"flags: order {old.argv} -> {new.argv}")
        lines += [f"flag removed: {word}" for word in gone]
        lines += [f"flag added: {word}" for word in come]
    for noun, before, after in (
        ("input", dict(old.inputs), dict(new.inputs)),
        ("variable", dict(old.env), dict(new.env)),
        ("platform", dict(old.platform), dict(new.platform)),
    ):
        for name in sorted(before.keys() | after.keys()):
            a, b = before.get(name), after.get(name)
            if a != b:
                lines.append(f"{noun} {name}: {_say(a)} -> {_say(b)}")
    if old.outputs != new.outputs:
        lines.append(f"outputs: {old.outputs} -> {new.outputs}")
    return lines


def _say(value: object) -> str:
    return "none" if value is None else str(value)


def _shown(record: Record, root: Path) -> list[str]:
    lines = []
    for path, identity in record.shown:
        try:
            if identify(os.stat(root / path)) != identity:
                lines.append(f"{path} was changed; it is restored from the store")
        except OSError:
            lines.append(f"{path} is gone; it is restored from the store")
    return lines


def chosen(catalogue: Catalogue, patterns: list[str]) -> set[str]:
    """Return the tasks that the patterns name.

    Raises: IngotError for one that names none, with the own defects of a model or
        target that cannot be read.
    """
    from ingot.front.commands import unknown_task

    names = [action.task for action in catalogue.plan.actions]
    chosen: set[str] = set()
    for pattern in patterns:
        found = [name for name in names if fnmatch(name, pattern)]
        if not found:
            refuse_unreadable(catalogue, pattern)
            raise unknown_task(pattern, names)
        chosen.update(found)
    return chosen
