"""Write the differences of two bundles for people, and as Markdown for a changelog."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from ingot.bundles.bundle_readme import table
from ingot.bundles.difference import Change, Difference, Timing

SHOWN_CHARACTERS = 72
SHOWN_TENSORS = 8


def text(found: Difference) -> str:
    """Return the lines that `doit diff` prints."""
    if not found.changes:
        head = f"{found.before} and {found.after}: equal"
        return "\n".join([head, *_ends(found)])
    lines = [f"{found.before} -> {found.after}: {found.level}"]
    for changes in _areas(found):
        lines.append(changes[0].area)
        lines += [f"  {_line(change)}" for change in _some(changes)]
        lines += [f"  {note}" for note in _more(changes)]
        of_area = {cause: None for change in changes for cause in change.causes}
        lines += [f"    because of {cause}" for cause in of_area]
    return "\n".join([*lines, *_ends(found)])


def markdown(found: Difference) -> str:
    """Return a section for a changelog."""
    head = f"## {found.after}: {found.level} change"
    if not found.changes:
        return f"{head}\n\nEqual to {found.before}.\n"
    rows = (
        (
            change.area,
            f"`{change.what}`",
            _value(change.before),
            _value(change.after) + _numbers(change),
            change.level,
            ", ".join(change.causes),
        )
        for area in _areas(found)
        for change in _some(area)
    )
    names = ("area", "what", "before", "after", "level", "because of")
    parts = [head, f"Compared with {found.before}.", table(names, rows)]
    parts += [note for area in _areas(found) for note in _more(area)]
    if found.benchmarks:
        times = ((_case(x), x.before_ms, x.after_ms) for x in found.benchmarks)
        parts.append(table(("benchmark", "before (ms)", "after (ms)"), times))
    return "\n\n".join(parts) + "\n"


def _areas(found: Difference) -> list[list[Change]]:
    grouped = groupby(found.changes, key=lambda change: change.area)
    return [list(changes) for _, changes in grouped]


def _more(changes: list[Change]) -> list[str]:
    """Return a line about the changes that `_some` leaves out."""
    left = len(changes) - len(_some(changes))
    return [f"... {left} more tensors"] if left else []


def _some(changes: list[Change]) -> list[Change]:
    """Return all changes; of tensors, those that are farthest apart."""
    if changes[0].area != "weights":
        return changes
    apart = sorted(changes, key=lambda change: -change.numbers.get("max_abs", 0.0))
    return apart[:SHOWN_TENSORS]


def _line(change: Change) -> str:
    if change.area == "flags":
        return f"- {change.before}" if change.before else f"+ {change.after}"
    level = "" if change.level == "patch" else f" ({change.level})"
    values = f"{_value(change.before)} -> {_value(change.after)}"
    return f"{change.what}: {values}{_numbers(change)}{level}"


def _numbers(change: Change) -> str:
    words = (f"{name} {number:.3g}" for name, number in change.numbers.items())
    return f"; {', '.join(words)}" if change.numbers else ""


def _value(value: Any) -> str:
    words = "none" if value is None else str(value)
    if isinstance(value, dict) and value.keys() == {"min", "max"}:
        most = value["max"]
        ends = most if isinstance(most, list) else [most]
        words = f"{value['min']} to {' and '.join(map(str, ends))}"
    return words if len(words) <= SHOWN_CHARACTERS else f"{words[:SHOWN_CHARACTERS]}..."


def _ends(found: Difference) -> Iterator[str]:
    if found.benchmarks:
        yield "benchmarks, which do not count"
        for case in found.benchmarks:
            ratio = case.after_ms / case.before_ms if case.before_ms else 0.0
            times = f"{case.before_ms} ms -> {case.after_ms} ms ({ratio:.2f})"
            yield f"  {_case(case)}: {times}"
    for note in found.notes:
        yield f"not compared: {note}"


def _case(case: Timing) -> str:
    sizes = " ".join(f"{name} {size}" for name, size in case.sizes.items())
    return f"{case.entry_point} {sizes}"
