"""Recorded and current actions in, the fields that differ out.

The recorded action says everything that its result depends on, so the difference of the
two is the whole reason; an input that another stale action makes is named as such.
"""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

from ingot.catalogue import Plan, read, select
from ingot.edges.digests import identify
from ingot.edges.records import Record
from ingot.executor import Executor
from ingot.front.tasks import store
from ingot.values import Action, BoundAction, Output


def explain_all(root: Path, variables: dict[str, str], patterns: list[str]) -> int:
    """Print the reasons of every stale action that is selected; return 0."""
    catalogue = read(root)
    everything = catalogue.plan
    executor = Executor(root, store(), lambda *_: None)
    names = _chosen(everything, patterns) or everything.needed(
        everything.selected("bundle", select(catalogue, variables))
    )
    stale: set[str] = set()
    for action in everything.actions:
        if action.task not in names:
            continue
        reasons = explain(action, executor, stale)
        if reasons:
            stale.add(action.task)
            print(f"{action.task} would run:")
            for reason in reasons:
                print(f"  {reason}")
    if not stale:
        print(f"nothing would run: {len(names)} actions are up to date")
    return 0


def explain(action: Action, executor: Executor, stale: set[str]) -> list[str]:
    """Return why the action is not current; empty where it is."""
    record = executor.records.get(action.task)
    if record is None:
        return ["it has not run in this checkout, or its last run did not end"]
    above = sorted(
        {
            source.task
            for _, source in action.inputs
            if isinstance(source, Output) and source.task in stale
        }
    )
    if above:
        return [f"it follows {task}" for task in above]
    try:
        bound = executor.bound(action)
    except OSError as error:
        return [f"input {error.filename}: {error.strerror}"]
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


def _chosen(everything: Plan, patterns: list[str]) -> set[str]:
    from ingot.front.commands import unknown_task

    names = [action.task for action in everything.actions]
    chosen: set[str] = set()
    for pattern in patterns:
        found = [name for name in names if fnmatch(name, pattern)]
        if not found:
            raise unknown_task(pattern, names)
        chosen.update(found)
    return chosen
