"""An action as it was and as it is in; one line for each thing that differs, out.

A text that the plan made, such as `spec.json`, was never written by the user, so it is
told by the values in it that differ, and where those were written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from ingot.engine.actions import Action, InlineText, ResolvedAction

T = TypeVar("T")

# Values of one text that are told; more are counted.
MOST_VALUES = 4

# What stands for a value that there is not: JSON has a null of its own.
NONE = object()

# A value is cut there, so that a reason stays a line.
MOST_CHARACTERS = 60


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
    kept: Callable[[], Mapping[str, str]],
) -> list[str]:
    """Return one line for each field that differs, old value first.

    `action` is the new one, of the checkout at `root`; `kept` returns the old one's
    texts, by hash, or those of them that are known.
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
        before = kept().get(was.hash) if was and now and path in texts else None
        values = [] if before is None else _values(before, texts[path])
        told, unplaced = [f"{_say(was)} -> {_say(now)}"], ""
        if path in texts:
            told, unplaced = _told(root, action.task, values, told)
        lines += [f"input {path}: {line}" for line in told]
        lines += [f"input {path} is made of {unplaced}"] if unplaced else []
    for noun, befores, afters in (
        ("variable", old.env, new.env),
        ("platform", old.platform, new.platform),
    ):
        for name, a, b in _changed(befores, afters):
            lines.append(f"{noun} {name}: {_say(a)} -> {_say(b)}")
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


def _say(value: object) -> str:
    return "none" if value is None else str(value)


def _told(
    root: Path, task: str, values: list[Value], digests: list[str]
) -> tuple[list[str], str]:
    """Return what is told of a text, and its files where a value's line is not known.

    `digests` is what is told of one whose values are not known.
    """
    from ingot.cli import source_lookup

    more = len(values) - MOST_VALUES
    told = values if more <= 1 else values[:MOST_VALUES]
    places = [source_lookup.place(root, task, value.key, value.new) for value in told]
    lines = [
        f"{value} ({place})" if place else str(value)
        for value, place in zip(told, places, strict=True)
    ]
    lines += [f"{more} more values differ"] if more > 1 else []
    if places and all(places):
        return lines, ""
    files = (
        path.relative_to(root).as_posix() for path in source_lookup.sources(root, task)
    )
    return lines or digests, ", ".join(files)


def _values(old: str, new: str) -> list[Value]:
    """Return which values of two JSON texts differ; none where one is no JSON."""
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
    """Return the parts of an object or a list by their paths; None where it has none.

    What has a name is known by it: one more in a list then changes no other.
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
