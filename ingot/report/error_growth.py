"""Plot the comparisons of a failed check, to show where the error originates.

The rows go from the smallest pieces to the whole model. A level that passed is one row;
a level that failed has one row per component or block, in the order of the model. The
first row with a red dot is the origin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.report import svg
from ingot.report.build_runs import Comparison
from ingot.report.plots import LEFT, RIGHT, WIDTH

# Pixels: a row has a name, and its dots below the name.
TOP, HEADING, NAME, DOTS = 4.0, 18.0, 15.0, 14.0
LONGEST = 46  # characters

# The number of names per level: the worst ones, as a golden file may have hundreds.
MOST = 8

# Powers of ten of the error divided by its tolerance.
LOW, HIGHEST = -4, 6


def origins(found: Sequence[Comparison]) -> str:
    """Return every comparison's error divided by its tolerance, on a log axis."""
    # Dots whose ratio is not finite go to the right end.
    factors = [item.ratio for item in found if math.isfinite(item.ratio)]
    most = max((math.log10(factor) for factor in factors if factor > 0), default=0.0)
    high = min(max(math.ceil(most), 1), HIGHEST)

    def place(ratio: float) -> float:
        power = math.log10(ratio) if ratio > 0 else LOW
        share = (min(max(power, LOW), high) - LOW) / (high - LOW)
        return LEFT + 4 + share * (RIGHT - LEFT - 8)

    rows, y = [], TOP
    for level in dict.fromkeys(item.level for item in found):
        for name, kind, items in _rows(level, found):
            y += NAME if items else HEADING
            rows.append(svg.text(LEFT, y, name, kind))
            if items:
                y += DOTS
            # Draw the failed ones on top.
            for item in sorted(items, key=lambda item: not item.passed, reverse=True):
                rows.append(_dot(item, place(item.ratio), y - 4))
        y += 8
    bottom = y
    body = []
    for power in range(LOW, high + 1):
        x, kind = place(10.0**power), "rule" if power else "limit"
        body.append(svg.path(((x, TOP), (x, bottom)), kind))
        if power % 2 == 0:
            label = f"1/{10**-power}" if power < 0 else f"{10**power} times"
            label = label if power else "tolerance"
            where = {LOW: "dim", high: "dim end"}.get(power, "dim middle")
            at = {LOW: LEFT, high: RIGHT}.get(power, x)
            body.append(svg.text(at, bottom + 15, label, where))
    return svg.svg(WIDTH, bottom + 22, "errors over their tolerance", [*body, *rows])


def _rows(
    level: str, found: Sequence[Comparison]
) -> list[tuple[str, str, list[Comparison]]]:
    """Return the rows of a level: the name, the style and the dots of each."""
    of_level = [item for item in found if item.level == level]
    failed = [item for item in of_level if not item.passed]
    if not failed:
        return [(f"{level}: {len(of_level)} right", "dim", of_level)]
    by_name: dict[str, list[Comparison]] = {}
    for item in of_level:
        by_name.setdefault(item.name, []).append(item)
    worst = sorted(by_name, key=lambda name: _badness(by_name[name]), reverse=True)
    shown = [name for name in by_name if name in worst[:MOST]]
    rows: list[tuple[str, str, list[Comparison]]] = [
        (f"{level}: {len(failed)} of {len(of_level)} wrong", "bold", [])
    ]
    rows += [(svg.short(name, LONGEST), "", by_name[name]) for name in shown]
    if rest := [item for name in worst[MOST:] for item in by_name[name]]:
        rows.append((f"{len(worst) - MOST} more", "dim", rest))
    return rows


def _badness(items: Sequence[Comparison]) -> tuple[bool, float]:
    return any(not item.passed for item in items), max(item.ratio for item in items)


def _dot(item: Comparison, x: float, y: float) -> str:
    about = f"{item.level} {item.name} ({item.sizes}): error {item.error:.1e}"
    about += f", tolerance {item.tolerance:.1e}"
    if not item.passed and item.ratio <= 1:
        about += ", but the cosine is too low"
    return svg.dot(x, y, "blue faint" if item.passed else "red", about)
