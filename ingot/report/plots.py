"""Draw the figures of builds as SVG plots.

Every plot fits the width of a phone and grows with the page.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from ingot.engine.byte_sizes import format_size
from ingot.report import svg
from ingot.report.build_runs import Build, Cell, Point

WIDTH = 360.0
LEFT, RIGHT = 8.0, 352.0
ROW = 40.0

LEVELS = {"component": "blue", "block": "green", "propagated": "orange", "model": "ink"}
PARTS = {"vmfb": "blue", "irpa": "green"}
HOWS = {"ran": "blue", "restored": "green", "fetched": "green", "failed": "red"}


def margins(cells: Sequence[Cell]) -> str:
    """Return each level's worst error divided by its tolerance, on a log axis."""
    low, high = -5.0, 1.0  # powers of ten

    def place(ratio: float) -> float:
        power = math.log10(ratio) if ratio > 0 else low
        share = (min(max(power, low), high) - low) / (high - low)
        return LEFT + share * (RIGHT - LEFT)

    height = len(cells) * ROW + 44
    body = []
    for power in range(int(low), int(high) + 1):
        x = place(10.0**power)
        body.append(svg.path(((x, 20), (x, height - 22)), "rule"))
        label = {0: "tolerance", -5: "", 1: ""}.get(power, f"1/{10**-power}")
        body.append(svg.text(x, height - 8, label, "dim middle"))
    limit = place(1.0)
    body.append(svg.path(((limit, 14), (limit, height - 22)), "limit"))
    x = LEFT
    for level, kind in LEVELS.items():
        body += [svg.dot(x + 4, 8, kind), svg.text(x + 12, 12, level, "dim")]
        x += 24 + len(level) * svg.CHARACTER
    for number, cell in enumerate(cells):
        top = 36 + number * ROW
        body.append(svg.text(LEFT, top, cell.pair))
        for level, item in cell.figures.get("check", {}).items():
            if item["tolerance"]:
                ratio = item["worst"] / item["tolerance"]
                about = f"{level}: {item['worst']:.1e} of {item['tolerance']:.0e}"
                kind = "red" if item["failed"] else LEVELS.get(level, "ink")
                body.append(svg.dot(place(ratio), top + 12, kind, about))
    return svg.svg(WIDTH, height, "worst error over tolerance", body)


def benchmark(title: str, points: Sequence[Point]) -> str:
    """Return a benchmark over builds: the median, in a band of the quartiles."""
    top, bottom = 26.0, 120.0
    ticks = axis([time for p in points for time in (p.low_ms, p.high_ms)])
    low, high = ticks[0], ticks[-1]
    left, right = 64.0, RIGHT - 8

    def at(number: int, value_ms: float) -> tuple[float, float]:
        share = number / (len(points) - 1) if len(points) > 1 else 0.5
        y = bottom - (value_ms - low) / (high - low) * (bottom - top)
        return left + share * (right - left), y

    body = [svg.text(LEFT, 12, title, "bold")]
    for value in ticks:
        y = at(0, value)[1]
        body.append(svg.path(((left - 4, y), (right, y)), "rule"))
        body.append(svg.text(left - 8, y + 4, say_ms(value), "dim end"))
    band = [at(i, point.high_ms) for i, point in enumerate(points)]
    band += [at(i, point.low_ms) for i, point in reversed(list(enumerate(points)))]
    if len(points) > 1:
        body.append(svg.path(band, "band", closed=True))
        medians = [at(i, point.median_ms) for i, point in enumerate(points)]
        body.append(svg.path(medians, "line"))
    else:
        (x, y1), (_, y2) = band
        body.append(svg.rect(x - 8, y1, 16, y2 - y1, "band"))
    for number, point in enumerate(points):
        about = (
            f"{day(point.at_s)}: {say_ms(point.median_ms)}, half of the repetitions"
            f" {say_ms(point.low_ms)} to {say_ms(point.high_ms)}"
        )
        body.append(svg.dot(*at(number, point.median_ms), "blue", about))
    body.append(svg.text(left, 138, day(points[0].at_s), "dim"))
    if len(points) > 1:
        body.append(svg.text(right, 138, day(points[-1].at_s), "dim end"))
    return svg.svg(WIDTH, 146, f"{title}, milliseconds over builds", body)


def axis(values: Sequence[float]) -> list[float]:
    """Return two to five round numbers at equal distances that enclose the values.

    They span at least a fifth of the largest value, so that noise looks like noise.
    """
    high = max(values)
    low = max(0.0, min(min(values), high * 0.8))
    exact = (high - low) / 3 or 1.0
    unit = 10.0 ** math.floor(math.log10(exact))
    step = next(n * unit for n in (1, 2, 5, 10) if n * unit >= exact)
    first = math.floor(low / step)
    last = max(math.ceil(high / step), first + 1)
    return [number * step for number in range(first, last + 1)]


def sizes(cells: Sequence[Cell]) -> str:
    """Return the sizes of what ships: code and weights of each model and target."""
    totals = [
        sum(cell.figures["sizes"].get(part, 0) for part in PARTS) for cell in cells
    ]
    most = max(totals, default=0) or 1
    height = len(cells) * ROW + 22
    body = []
    x = LEFT
    for part, kind in PARTS.items():
        name = {"vmfb": "code (.vmfb)", "irpa": "weights (.irpa)"}[part]
        body += [svg.rect(x, 3, 10, 10, kind), svg.text(x + 16, 12, name, "dim")]
        x += 32 + len(name) * svg.CHARACTER
    for number, (cell, total) in enumerate(zip(cells, totals, strict=True)):
        top = 36 + number * ROW
        body.append(svg.text(LEFT, top, cell.pair))
        body.append(svg.text(RIGHT, top, format_size(total), "dim end"))
        x = LEFT
        for part, kind in PARTS.items():
            size = cell.figures["sizes"].get(part, 0)
            wide = size / most * (RIGHT - LEFT)
            about = f"{part}: {format_size(size)}"
            body.append(svg.rect(x, top + 5, wide, 10, kind, about))
            x += wide
    return svg.svg(WIDTH, height, "sizes of what ships", body)


def activity(builds: Sequence[Build]) -> str:
    """Return what each build did, one column each, with its duration below."""
    bottom, high = 118.0, 96.0
    most = max(sum(_done(build).values()) for build in builds) or 1
    step = (RIGHT - LEFT) / max(len(builds), 8)
    body = []
    x = LEFT
    for how, kind in {"ran": "blue", "restored": "green", "failed": "red"}.items():
        body += [svg.rect(x, 3, 10, 10, kind), svg.text(x + 16, 12, how, "dim")]
        x += 36 + len(how) * svg.CHARACTER
    for number, build in enumerate(builds):
        x, y = LEFT + number * step, bottom
        words = f"{day(build.at_s)}, {build.wall_s:.0f} s: doit {' '.join(build.words)}"
        for how, count in _done(build).items():
            tall = count / most * high
            y -= tall
            about = f"{count} {how}; {words}"
            body.append(svg.rect(x, y, step * 0.8, tall, HOWS[how], about))
    body.append(svg.path(((LEFT, bottom), (RIGHT, bottom)), "rule"))
    body.append(svg.text(LEFT, bottom + 16, day(builds[0].at_s), "dim"))
    last = LEFT + (len(builds) - 1) * step + step * 0.8
    if last > 200:
        body.append(svg.text(last, bottom + 16, day(builds[-1].at_s), "dim end"))
    body.append(svg.text(RIGHT, 12, f"{most} actions at most", "dim end"))
    return svg.svg(WIDTH, 140, "actions of each build", body)


def _done(build: Build) -> dict[str, int]:
    return {how: build.counts[how] for how in HOWS if build.counts.get(how)}


def say_ms(value_ms: float) -> str:
    """Return a time in a suitable unit."""
    if value_ms == 0:
        return "0"
    if value_ms >= 1000:
        return f"{value_ms / 1000:.3g} s"
    return f"{value_ms:.3g} ms" if value_ms >= 1 else f"{value_ms * 1000:.0f} µs"


def day(at_s: float) -> str:
    """Return the day and the minute in the local time zone."""
    return time.strftime("%d %b %H:%M", time.localtime(at_s))
