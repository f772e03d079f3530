"""Turn measured speeds into a table, for a terminal and for docs/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import limits
from engine_process import Speeds
from limits import Limit

BEGIN = "<!-- benchmarks/generate.py --write: begin, {} -->"
END = "<!-- benchmarks/generate.py --write: end, {} -->"


@dataclass(frozen=True, slots=True)
class Agreement:
    """How close an engine's logits are to those of ingot's f32."""

    same: int  # positions whose likeliest token is the same
    positions: int
    correlation: float  # of the position where it is least


@dataclass(frozen=True, slots=True)
class Measured:
    """An engine's speed in every turn."""

    name: str  # "llama.cpp q8_0"
    archive_bytes: int  # of ingot's, 0 of others
    agreement: Agreement
    turns: tuple[Speeds, ...]

    @property
    def ours(self) -> bool:
        """Return whether this is ingot."""
        return self.name.startswith("ingot ")

    def median(self, key: str) -> float:
        """Return the median of all turns, tokens/s."""
        return statistics.median(turn[key] for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Width:
    """All engines with weights of a width, which took turns."""

    width: str  # "f32", "bf16", "i8", "i4"
    engines: tuple[Measured, ...]
    limits: tuple[dict[str, Limit], ...]  # of each turn
    absent: dict[str, str]  # why an engine was not measured

    def limit(self, *names: str) -> tuple[str, Limit] | None:
        """Return the median of the first of these limits that the machine has."""
        for name in names:
            if found := [turn[name] for turn in self.limits if name in turn]:
                speed = statistics.median(item.giga_per_s for item in found)
                return name, Limit(speed, found[0].unit)
        return None

    def ratio(self, ours: Measured, key: str) -> tuple[float, str] | None:
        """Return ingot's speed relative to the fastest other engine, and its name."""
        peers = [engine for engine in self.engines if not engine.ours]
        if not peers:
            return None
        best = max(peers, key=lambda engine: engine.median(key))
        turns = zip(ours.turns, best.turns, strict=True)
        ratio = statistics.median(mine[key] / its[key] for mine, its in turns)
        return ratio, best.name


@dataclass(frozen=True, slots=True)
class Report:
    """One run of the benchmark."""

    model: str
    day: str
    machine: dict[str, str]
    processor: str  # "native", or the one whose instructions are allowed
    threads: int
    tokens: int  # decoded in a turn
    load: float  # before the run
    layer_weights: int
    widths: tuple[Width, ...]


def text(report: Report) -> str:
    """Return the report for people."""
    rows = [(_HEAD, *_keys(report)), *_rows(report)]
    rows = [(*row, "") if len(row) <= len(_keys(report)) + 1 else row for row in rows]
    sizes = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
    lines = [
        f"{row[0]:{sizes[0]}}  "
        + "  ".join(f"{c:>{w}}" for c, w in zip(row[1:-1], sizes[1:], strict=True))
        + f"  {row[-1]}"
        for row in rows
    ]
    return "\n".join(
        [_title(report), "", *(line.rstrip() for line in lines), "", *_notes(report)]
    )


def write(path: Path, report: Report) -> None:
    """Replace the table of a file that stands between the marks of a processor."""
    begin, end = BEGIN.format(report.processor), END.format(report.processor)
    before, mark, rest = path.read_text("utf-8").partition(begin)
    _, other, after = rest.partition(end)
    if not (mark and other):
        raise SystemExit(f"{path}: expected the lines '{begin}' and '{end}'")
    made = f"{begin}\n\n{markdown(report)}\n\n{end}"
    path.write_text(f"{before}{made}{after}", encoding="utf-8")


def markdown(report: Report) -> str:
    """Return the report for the documentation."""
    head = (_HEAD, *_keys(report), "logits")
    rows = [head, ("---",) * len(head), *_rows(report)]
    table = (f"| {' | '.join(row)} |" for row in rows)
    notes = (f"- {note}" for note in _notes(report))
    return "\n".join([f"{_title(report)}.", "", *table, "", *notes])


_HEAD = "tokens/s"


def _title(report: Report) -> str:
    facts = report.machine
    limited = "" if report.processor == "native" else f" with {report.processor} only"
    turns = max(
        len(engine.turns) for width in report.widths for engine in width.engines
    )
    return (
        f"{report.model} on {facts['cpu']}{limited}, {facts['cores']} cores,"
        f" {facts['memory']}, {report.day}; {report.threads} threads, median of"
        f" {turns} turns of {report.tokens} decoded tokens, load {report.load:.1f}"
    )


def _keys(report: Report) -> list[str]:
    return sorted(
        {k for w in report.widths for e in w.engines for k in e.turns[0]},
        key=lambda key: (key.startswith("decode"), int(key.split()[1])),
    )


def _rows(report: Report) -> Iterator[tuple[str, ...]]:
    keys = _keys(report)
    for width in report.widths:
        for engine in width.engines:
            found = engine.agreement
            near = f"{found.same}/{found.positions}, r = {found.correlation:.3f}"
            speeds = (f"{engine.median(key):.1f}" for key in keys)
            name = f"**{engine.name}**" if engine.ours else engine.name
            yield name, *speeds, near
        for engine in (engine for engine in width.engines if engine.ours):
            ratios = (width.ratio(engine, key) for key in keys)
            best = ("-" if r is None else f"{r[0]:.2f} {r[1]}" for r in ratios)
            yield f"{engine.name} / fastest other", *best, ""
            shares = (_share(report, width, engine, key) for key in keys)
            yield f"{engine.name} of the limit", *shares, ""


def _share(report: Report, width: Width, engine: Measured, key: str) -> str:
    names, work = limits.PRODUCTS[width.width], 2 * report.layer_weights
    if key.startswith("decode"):
        names, work = (limits.MEMORY,), engine.archive_bytes
    found = width.limit(*names)
    if found is None:
        return "-"
    name, limit = found
    share = engine.median(key) * work / (limit.giga_per_s * 1e9)
    return f"{share:.0%} {name}"


def _notes(report: Report) -> Iterator[str]:
    for width in report.widths:
        names = dict.fromkeys(name for turn in width.limits for name in turn)
        found = [width.limit(name) for name in names]
        each = [f"{i[0]} {i[1].giga_per_s:.0f} {i[1].unit}" for i in found if i]
        words = ", ".join(each) or "not measured, because there is no C compiler"
        yield f"limits beside {width.width}: {words}"
    for width in report.widths:
        for name, reason in width.absent.items():
            yield f"not measured: {name}: {reason}"
