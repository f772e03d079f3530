"""Draw the actions of a plan as an SVG graph, from sources on the left to bundles.

A column contains the actions with the same distance from the sources. A bar below each
action shows how its last run in this checkout ended, and how long it took.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ingot.engine.actions import Action, Output
from ingot.report import svg

# Pixels.
ROW, GAP, MARGIN, PADDING, HIGH = 42.0, 70.0, 16.0, 8.0, 32.0
WIDEST = 40  # maximum length of a name, in characters

# The ways in which an action ends, and their colours.
KINDS = {"ran": "blue", "restored": "green", "fetched": "green"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How an action's last run ended."""

    how: str
    wall_ms: float


def picture(title: str, actions: tuple[Action, ...], ended: dict[str, Ended]) -> str:
    """Return the SVG file; each action comes after those that it needs."""
    above = {
        action.task: sorted(
            {source.task for _, source in action.inputs if isinstance(source, Output)}
        )
        for action in actions
    }
    columns = ordered(above)
    places, width = _places(columns)
    height = max(map(len, columns)) * ROW + 2 * MARGIN + 20
    body = [svg.text(MARGIN, MARGIN + 4, title, "bold")]
    for task, needed in above.items():
        x, y, _ = places[task]
        for source in needed:
            left, top, wide = places[source]
            body.append(_edge(left + wide, top + HIGH / 2, x, y + HIGH / 2))
    for task, (x, y, wide) in places.items():
        end = ended.get(task)
        how = f"{end.how}, {end.wall_ms / 1e3:.1f} s" if end else "not built here"
        body += [
            svg.rect(x, y, wide, HIGH, "box", f"{task}: {how}"),
            svg.text(x + PADDING, y + 13, svg.short(task, WIDEST)),
            svg.text(x + PADDING, y + 27, how, "dim"),
        ]
        if end:
            body.append(svg.rect(x, y, 4, HIGH, KINDS.get(end.how, "orange")))
    return svg.standalone(svg.svg(width, height, title, body), width, height)


def ordered(above: dict[str, list[str]]) -> list[list[str]]:
    """Return the tasks by column, with each near the tasks that it needs.

    `above` maps each task to the tasks that it needs, in topological order.
    """
    depth: dict[str, int] = {}
    for task, needed in above.items():
        depth[task] = 1 + max((depth[name] for name in needed), default=-1)
    columns: defaultdict[int, list[str]] = defaultdict(list)
    for task, column in depth.items():
        columns[column].append(task)
    rank: dict[str, float] = {}
    for column in sorted(columns):
        names = columns[column]

        def middle(task: str) -> float:
            needed = [rank[name] for name in above[task]]
            return sum(needed) / len(needed) if needed else 0.0

        names.sort(key=lambda task: (middle(task), task))
        for number, task in enumerate(names):
            rank[task] = (number + 0.5) / len(names)
    return [columns[column] for column in sorted(columns)]


def _places(
    columns: list[list[str]],
) -> tuple[dict[str, tuple[float, float, float]], float]:
    """Return left, top and width of each task's box, and the total width."""
    places: dict[str, tuple[float, float, float]] = {}
    left, most = MARGIN, max(map(len, columns))
    for names in columns:
        longest = max(min(len(name), WIDEST) for name in names)
        wide = max(longest * svg.CHARACTER + 2 * PADDING, 110.0)
        top = MARGIN + 20 + (most - len(names)) * ROW / 2
        for number, name in enumerate(names):
            places[name] = (left, top + number * ROW, wide)
        left += wide + GAP
    return places, left - GAP + MARGIN


def _edge(x1: float, y1: float, x2: float, y2: float) -> str:
    bend = (x2 - x1) / 2
    return (
        f'<path d="M{x1:.1f} {y1:.1f} C{x1 + bend:.1f} {y1:.1f} '
        f'{x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}" class="edge faint"/>'
    )
