"""A failed check's comparisons in, a plot of where the error comes from out.

From the smallest piece to the whole: a level that is right is one row, a level that is
wrong has a row for each component or block, in the order of the model. The first red
row is where to look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.report import marks
from ingot.report.plots import RIGHT, WIDTH
from ingot.report.runs import Comparison

# Pixels; names are at the left of the axis.
ROW, TOP, AXIS, LEFT = 19.0, 14.0, 152.0, 8.0
NAME = 18  # characters

# Rows of one level, the worst ones: a golden file has hundreds of sentences.
MOST = 12

# Powers of ten of the error over its tolerance.
LOW, HIGHEST = -4, 6


def origins(found: Sequence[Comparison]) -> str:
    """Return every comparison's error over its tolerance, on a logarithmic axis."""
    # What is off by no factor that is a number is at the right end.
    factors = [item.ratio for item in found if math.isfinite(item.ratio)]
    most = max((math.log10(factor) for factor in factors if factor > 0), default=0.0)
    high = min(max(math.ceil(most), 1), HIGHEST)

    def place(ratio: float) -> float:
        power = math.log10(ratio) if ratio > 0 else LOW
        share = (min(max(power, LOW), high) - LOW) / (high - LOW)
        return AXIS + share * (RIGHT - 6 - AXIS)

    rows, y = [], TOP
    for level in dict.fromkeys(item.level for item in found):
        for name, kind, items in _rows(level, found):
            y += ROW
            rows.append(marks.text(LEFT, y + 4, name, kind))
            # The failed ones above the others.
            for item in sorted(items, key=lambda item: not item.passed, reverse=True):
                rows.append(_dot(item, place(item.ratio), y))
        y += 6
    bottom = y + 8
    body = [
        marks.path(
            ((place(10.0**power), TOP + 4), (place(10.0**power), bottom)), "rule"
        )
        for power in range(LOW, high + 1)
    ]
    limit = place(1.0)
    body.append(marks.path(((limit, TOP + 4), (limit, bottom)), "limit"))
    body.append(marks.text(limit, TOP - 2, "tolerance", "dim middle"))
    body.append(marks.text(AXIS, bottom + 15, f"1/{10**-LOW} of it", "dim"))
    body.append(marks.text(RIGHT, bottom + 15, f"{10**high} times it", "dim end"))
    return marks.svg(WIDTH, bottom + 22, "errors over their tolerance", [*body, *rows])


def _rows(
    level: str, found: Sequence[Comparison]
) -> list[tuple[str, str, list[Comparison]]]:
    """Return the rows of a level: what each is called, its style, its dots."""
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
    rows += [(marks.short(name, NAME), "", by_name[name]) for name in shown]
    if rest := [item for name in worst[MOST:] for item in by_name[name]]:
        rows.append((f"{len(worst) - MOST} more", "dim", rest))
    return rows


def _badness(items: Sequence[Comparison]) -> tuple[bool, float]:
    return any(not item.passed for item in items), max(item.ratio for item in items)


def _dot(item: Comparison, x: float, y: float) -> str:
    about = f"{item.level} {item.name} ({item.sizes}): error {item.error:.1e}"
    about += f", tolerance {item.tolerance:.1e}"
    if not item.passed and item.ratio <= 1:
        about += ", but another direction: the cosine is too low"
    return marks.dot(x, y, "blue faint" if item.passed else "red", about)
