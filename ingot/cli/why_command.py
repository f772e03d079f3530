"""Run `doit why`: show why each stale action would run.

The record of an action holds everything that its result depends on, so its difference
from the planned action is the whole reason. An input that another stale action produces
is reported as such. Of a text that the plan generates, such as `spec.json`, the report
shows the values that differ, and where those were written.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ingot.cli.commands import Call
from ingot.cli.connections import open_cache, open_store, open_trust, warn_of_trust
from ingot.cli.json_output import ForeseenAction, WhyOutput, print_json
from ingot.cli.tasks import choose_actions
from ingot.engine import build_outputs
from ingot.engine.actions import Action, InlineText, Output, ResolvedAction, Source
from ingot.engine.executor import Executor
from ingot.engine.store_survey import latest_results, read_result
from ingot.engine.task_records import TaskRecord
from ingot.errors import IngotError, counted
from ingot.model.library import name_of
from ingot.project.catalogue import Plan, read, requested_models
from ingot.project.selection import select

if TYPE_CHECKING:
    from ingot.engine.cache.shared_cache import SharedCache

# Where a result is, by how a build would get it.
HOLDERS = {"would be restored": "the store", "would be fetched": "the shared cache"}

# After these, an action's outputs may differ.
RUNS = ("would run", "may run")

NEVER = "it has not run in this checkout, or its last run did not end"

# Tasks above that one line names; more are counted.
MOST_TASKS = 3

FOLLOWS = "it follows "

T = TypeVar("T")

# Values of one text that are printed; more are counted.
MOST_VALUES = 4

# Stands for a missing value, because JSON has a null of its own.
NONE = object()

# Longer values are cut, so that a reason stays one line.
MOST_CHARACTERS = 60


def why(call: Call) -> int:
    """Print the reasons of every stale action that is selected; run nothing."""
    variables = dict(call.variables)
    catalogue = read(call.root, requested_models(variables, call.words))
    plan, store = catalogue.plan, open_store()
    trust = open_trust(catalogue.settings)
    executor = Executor(call.root, store, lambda *_: None, trust=trust)
    where = variables.get("executor", "local")
    elsewhere = Elsewhere(
        executor, lambda: open_cache(catalogue.settings, store, where, trust)
    )
    names = choose_actions(plan, select(catalogue, variables), call)
    if call.json:
        found, _ = foresee_all(plan, names, executor, elsewhere)
        print_json(WhyOutput(tuple(found), len(names) - len(found)))
    else:
        print_reasons(plan, names, executor, elsewhere)
    warn_of_trust(trust)
    return 0


def print_reasons(
    everything: Plan, names: set[str], executor: Executor, elsewhere: Elsewhere
) -> None:
    """Print what a build would do with the named actions, and why."""
    found, stale = foresee_all(everything, names, executor, elsewhere)
    for item in found:
        if item.outcome in HOLDERS:
            print(f"{item.task} {item.outcome}: {HOLDERS[item.outcome]} has its result")
        elif item.outcome == "may run" and all(map(is_follower, item.reasons)):
            print(f"{item.task} may run: {_in_short(item.reasons)}")
            continue
        else:
            print(f"{item.task} {item.outcome}:")
        for reason in item.reasons:
            print(f"  {reason}")
    if not stale & names:
        n_unchanged = len(names) - len(found)
        verb = "is" if n_unchanged == 1 else "are"
        unchanged = f"{counted(n_unchanged, 'action')} {verb} up to date"
        counts = Counter(item.outcome for item in found)
        others = [f"{count} {how}" for how, count in counts.items()]
        print(f"nothing would run: {', '.join([unchanged, *others])}")


def foresee_all(
    everything: Plan, names: set[str], executor: Executor, elsewhere: Elsewhere
) -> tuple[list[ForeseenAction], set[str]]:
    """Return the named actions that are not up to date, and all that would or may run.

    A task above a named one may be the reason why that would run.
    """
    stale: set[str] = set()
    found = []
    needed = everything.needed(names)
    for action in everything.actions:
        task = action.task
        if task not in needed:
            continue
        how, reasons = foresee(action, executor, stale, elsewhere)
        if how in RUNS:
            stale.add(task)
        if how and task in names:
            found.append(ForeseenAction(task, how, tuple(reasons)))
    return found, stale


def foresee(
    action: Action, executor: Executor, stale: set[str], elsewhere: Elsewhere
) -> tuple[str, list[str]]:
    """Return what a build would do with the action, and why; "" for nothing.

    `stale` holds the tasks above that would or may run: their outputs are unknown.
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
    # The outputs above may be the same as before, or as in another checkout.
    may = follows and (
        all(map(is_follower, reasons))
        or elsewhere.has(action)
        or (not recorded and elsewhere.knows(task))
    )
    return "may run" if may else "would run", reasons


class Elsewhere:
    """The results of other checkouts and machines that share the store or the cache."""

    def __init__(
        self, executor: Executor, connect: Callable[[], SharedCache | None]
    ) -> None:
        """Look at the executor's store and the shared cache when first asked."""
        self._executor = executor
        self._shared = cache(connect)
        self._last: dict[str, tuple[float, str]] | None = None

    def has(self, action: Action) -> str:
        """Return how a build would get the result, or ""; remember its outputs."""
        from ingot.engine.action_keys import encode_action

        try:
            key = encode_action(self._executor.resolve(action)).key
        except (OSError, IngotError):
            return ""
        how = "would be restored"
        result = self._executor.stored(action, key)
        if result is None and (shared := self._shared()):
            result = shared.look_up(key, action.outputs, action.task)
            how = "would be fetched"
        if result is None:
            return ""
        self._executor.assume_outputs(action.task, result.outputs)
        return how

    def knows(self, task: str) -> bool:
        """Return whether there may be a result of the task, whatever its inputs."""
        return task in self._newest() or self._shared() is not None

    def differences(self, action: Action, resolved: ResolvedAction) -> list[str]:
        """Return how the action differs from the last one of its task; [] without one.

        A stored action holds everything that its result depends on, as a record of this
        checkout does.
        """
        from ingot.engine.action_results import decode_action, unpack_texts
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
                result = read_result(self._executor.store.root, key)
                if not self._executor.trusts(action.task, key, result):
                    return []
                messages = result.messages
            else:
                return []
            old = decode_action(key, messages)
        except (OSError, CorruptMessage):
            return []
        day = time.strftime("%Y-%m-%d %H:%M", time.localtime(at_s))
        root, texts = (
            self._executor.root,
            partial(unpack_texts, messages),
        )
        heading = f"against its last {where.format(key[:12], day)}:"
        return [heading, *differences(root, old, resolved, action, texts)]

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
    """Return why the action is not up to date; nothing if it is.

    The action follows `stale` tasks, so inputs from them are not compared. An action
    without a record in this checkout is compared with what is `elsewhere`.
    """
    record = executor.records.get(action.task)
    follows = [f"{FOLLOWS}{task}" for task in _above(action, stale)]
    if record is None and (follows or elsewhere is None):
        return [NEVER, *follows]
    inputs = tuple(item for item in action.inputs if not _comes_from(item[1], stale))
    try:
        resolved = executor.resolve(replace(action, inputs=inputs))
    except OSError as error:
        return [f"input {error.filename}: {error.strerror}", *follows]
    except IngotError as error:
        return [error.message, *follows]
    if record is None:
        return [NEVER, *(elsewhere.differences(action, resolved) if elsewhere else [])]
    unknown = {path for path, source in action.inputs if _comes_from(source, stale)}
    known = tuple(item for item in record.resolved.inputs if item[0] not in unknown)
    old = replace(record.resolved, inputs=known)
    texts = partial(_texts, executor, record)
    reasons = differences(executor.root, old, resolved, action, texts)
    if record.trust != executor.trust_state:
        reasons.append("other keys are trusted than when its result was accepted")
    reasons += [
        f"{path} {what}; it will be restored from the store"
        for path, what in build_outputs.changes(executor.root, record)
    ]
    reasons += [
        f"output {path}: {digest} is not in the store"
        for path, digest in record.outputs
        if not executor.store.holds(digest)
    ]
    return reasons + follows


def is_follower(reason: str) -> bool:
    """Return whether the reason is only a task above."""
    return reason.startswith(FOLLOWS)


def _above(action: Action, stale: set[str]) -> list[str]:
    sources = [source for _, source in action.inputs]
    return sorted({s.task for s in sources if isinstance(s, Output)} & stale)


def _comes_from(source: Source, tasks: set[str]) -> bool:
    return isinstance(source, Output) and source.task in tasks


def _in_short(reasons: Sequence[str]) -> str:
    """Return the tasks that the action follows, in one line."""
    tasks = [reason.removeprefix(FOLLOWS) for reason in reasons]
    more = len(tasks) - MOST_TASKS
    named = ", ".join(tasks[:MOST_TASKS] if more > 0 else tasks)
    return f"{FOLLOWS}{named}" + (f" and {more} more" if more > 0 else "")


def _texts(executor: Executor, record: TaskRecord) -> dict[str, str]:
    """Return the input texts of the recorded action, as far as the store has them."""
    from ingot.engine.action_results import unpack_texts
    from ingot.engine.protobuf_wire import CorruptMessage

    try:
        return unpack_texts(read_result(executor.store.root, record.key).messages)
    except (OSError, CorruptMessage):
        return {}


class Value(NamedTuple):
    """A value of a text that differs."""

    key: str
    old: object
    new: object

    def __str__(self) -> str:
        """Return `path.of.key: old -> new`."""
        return f"{self.key or 'all of it'}: {_short(self.old)} -> {_short(self.new)}"


def differences(
    root: Path,
    old: ResolvedAction,
    new: ResolvedAction,
    action: Action,
    old_texts: Callable[[], Mapping[str, str]],
) -> list[str]:
    """Return one line for each field that differs, old value first.

    `action` is the new action, of the checkout at `root`; `old_texts` returns the texts
    of the old one by hash, as far as they are known.
    """
    lines = []
    if old.argv != new.argv:
        gone = [word for word in old.argv if word not in new.argv]
        come = [word for word in new.argv if word not in old.argv]
        if not gone and not come:
            lines.append(f"flags: order {old.argv} -> {new.argv}")
        lines += [f"flag removed: {word}" for word in gone]
        lines += [f"flag added: {word}" for word in come]
    texts = {path: s.text for path, s in action.inputs if isinstance(s, InlineText)}
    for path, was, now in _changed(old.inputs, new.inputs):
        before = old_texts().get(was.hash) if was and now and path in texts else None
        values = [] if before is None else _values(before, texts[path])
        changes, unplaced = [f"{_text(was)} -> {_text(now)}"], ""
        if path in texts:
            changes, unplaced = _text_changes(root, action.task, values, changes)
        lines += [f"input {path}: {line}" for line in changes]
        lines += [f"input {path} comes from {unplaced}"] if unplaced else []
    for noun, befores, afters in (
        ("variable", old.env, new.env),
        ("platform", old.platform, new.platform),
    ):
        for name, a, b in _changed(befores, afters):
            lines.append(f"{noun} {name}: {_text(a)} -> {_text(b)}")
    if old.outputs != new.outputs:
        lines.append(f"outputs: {old.outputs} -> {new.outputs}")
    return lines


def _changed(
    old: tuple[tuple[str, T], ...], new: tuple[tuple[str, T], ...]
) -> Iterator[tuple[str, T | None, T | None]]:
    """Yield each name whose value differs, with both values."""
    before, after = dict(old), dict(new)
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield name, before.get(name), after.get(name)


def _text(value: object) -> str:
    return "none" if value is None else str(value)


def _text_changes(
    root: Path, task: str, values: list[Value], digests: list[str]
) -> tuple[list[str], str]:
    """Return the lines on a text, and its files if the line of a value is unknown.

    `digests` are the lines on a text whose values are unknown.
    """
    from ingot.cli import source_lookup

    more = len(values) - MOST_VALUES
    printed = values if more <= 1 else values[:MOST_VALUES]
    positions = [
        source_lookup.locate(root, task, value.key, value.new) for value in printed
    ]
    lines = [
        f"{value} ({position})" if position else str(value)
        for value, position in zip(printed, positions, strict=True)
    ]
    lines += [f"{more} more values differ"] if more > 1 else []
    if positions and all(positions):
        return lines, ""
    files = (name_of(path, root) for path in source_lookup.sources(root, task))
    return lines or digests, ", ".join(files)


def _values(old: str, new: str) -> list[Value]:
    """Return the values of two JSON texts that differ; none if one is not JSON."""
    try:
        return list(_inside("", json.loads(old), json.loads(new)))
    except ValueError:
        return []


def _inside(path: str, old: object, new: object) -> Iterator[Value]:
    """Yield each value that differs, at the key that leads to it."""
    before, after = _parts(path, old), _parts(path, new)
    if before is None or after is None:
        if old != new:
            yield Value(path, old, new)
        return
    for name in {**before, **after}:
        if name in before and name in after:
            yield from _inside(name, before[name], after[name])
        else:
            yield Value(name, before.get(name, NONE), after.get(name, NONE))


def _parts(path: str, value: object) -> dict[str, object] | None:
    """Return the parts of an object or a list by their paths; None if it has none.

    A part with a name goes by it, so that one more part in a list changes no other.
    """
    if isinstance(value, dict):
        return {f"{path}.{key}" if path else key: part for key, part in value.items()}
    if not isinstance(value, list):
        return None
    names = [part.get("name") if isinstance(part, dict) else None for part in value]
    if None in names or len(set(map(str, names))) < len(names):
        names = list(range(len(value)))
    return {f"{path}[{name}]": part for name, part in zip(names, value, strict=True)}


def _short(value: object) -> str:
    if value is NONE:
        return "none"
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}..."
