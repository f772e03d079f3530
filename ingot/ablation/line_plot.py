"""Plot the results of an ablation: one line per mode, block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ingot.report import svg

if TYPE_CHECKING:
    from ingot.ablation.ablation_report import Report

# The dashes are for print without colour.
STYLES = {
    "f32": "trace ink",
    "weights": "trace blue",
    "activations": "trace green dashed",
    "both": "trace red dotted",
    "hardware": "trace orange",
}

WIDTH, HEIGHT = 900.0, 480.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 680.0, 50.0, 350.0
# The number of names that fit below the axis.
_NAMES = 26


def line_plot(report: Report) -> str:
    """Return the errors as SVG: blocks from left to right, errors on a log scale."""
    names = list(dict.fromkeys(row.block for row in report.measured.rows))
    lines = {
        mode.name: list(_points(report, mode.name, names)) for mode in report.modes
    }
    errors = [error for points in lines.values() for _, error in points]
    low = math.floor(math.log10(min(errors, default=1e-8)))
    high = max(math.ceil(math.log10(max(errors, default=1.0))), low + 1)

    def at(place: float, error: float) -> tuple[float, float]:
        share = (math.log10(error) - low) / (high - low)
        x = LEFT + (RIGHT - LEFT) * place / max(len(names) - 1, 1)
        return x, BOTTOM - share * (BOTTOM - TOP)

    title = f"{report.model}: error against float64 ({report.tokens} random tokens)"
    body = [
        svg.text(LEFT, 20, title, "bold"),
        svg.text(LEFT, 38, "RMS error / RMS value, after the block", "dim"),
    ]
    for power in range(low, high + 1):
        y = at(0, 10.0**power)[1]
        body.append(svg.path(((LEFT, y), (RIGHT, y)), "rule"))
        body.append(svg.text(LEFT - 8, y + 4, f"1e{power:+03}", "dim end"))
    for place in range(0, len(names), math.ceil(len(names) / _NAMES)):
        x = at(place, 10.0**low)[0]
        body.append(svg.text(x, BOTTOM + 16, names[place], "dim end", -60))
    for number, (mode, points) in enumerate(lines.items()):
        found = [at(*point) for point in points]
        if found:
            body.append(svg.path(found, STYLES[mode]))
            body += [svg.dot(x, y, _marker(mode)) for x, y in found]
        y = TOP + 20 * number
        body.append(svg.path(((RIGHT + 16, y), (RIGHT + 40, y)), STYLES[mode]))
        body.append(svg.text(RIGHT + 46, y + 4, _label(report, mode)))
    return svg.standalone(svg.svg(WIDTH, HEIGHT, title, body), WIDTH, HEIGHT)


def _marker(mode: str) -> str:
    return STYLES[mode].split()[1]


def _label(report: Report, name: str) -> str:
    """Return a mode's name, and what it rounds matrices to."""
    mode = next(mode for mode in report.modes if mode.name == name)
    schemes = ", ".join(sorted(set(mode.schemes.values())))
    return f"{name} ({schemes})" if schemes else name


def _points(report: Report, mode: str, names: list[str]) -> Iterator[tuple[int, float]]:
    """Yield the points of a line; zero and infinity have none."""
    for row in report.measured.rows:
        if row.mode == mode and 0 < row.error.relative < math.inf:
            yield names.index(row.block), row.error.relative
