"""The checkout's history in, builds as values and each model's newest figures out."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingot.engine import history, store_builds
from ingot.engine.actions import stage_of

# Stages that change nothing of what ships.
JUDGING = ("check", "bench", "bundle")

# What a check says.
VERDICT = ("passed", "check")


@dataclass(frozen=True, slots=True)
class Build:
    """One line of the history."""

    at_s: float
    words: tuple[str, ...]
    exit_code: int
    wall_s: float
    counts: dict[str, int]
    actions: dict[str, dict[str, Any]]  # task: {"how", "why"}
    results: dict[str, dict[str, Any]]  # "model@target": figures
    checked: frozenset[str] = frozenset()  # "model@target" whose check still stood


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row of a check's report."""

    level: str
    name: str  # the component, the block
    sizes: str
    error: float  # the largest one, absolute
    tolerance: float
    passed: bool

    @property
    def ratio(self) -> float:
        """Return the error over its tolerance; infinity for what is no number."""
        if not math.isfinite(self.error):
            return math.inf
        if self.tolerance:
            return self.error / self.tolerance
        return math.inf if self.error else 0.0


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of a model on a target: figures, or the tasks that failed."""

    pair: str
    figures: dict[str, Any]
    failed: dict[str, str] = field(default_factory=dict)  # task: what it said
    at_s: float = 0.0
    changed: bool = False  # since it was checked
    unchecked: str = ""  # why it cannot be checked here

    @property
    def status(self) -> str:
        """Return "failed", "passed", "changed" (since), "built" (only) or "none"."""
        if self.failed or self.figures.get("passed") is False:
            return "failed"
        if "passed" in self.figures:
            return "passed"
        if self.changed:
            return "changed"
        return "built" if self.figures.get("sizes") else "none"

    @property
    def comparisons(self) -> list[Comparison]:
        """Return what the check that failed compared."""
        return [
            Comparison(
                level=row["level"],
                name=row["name"],
                sizes=", ".join(f"{name} {n}" for name, n in row["inputs"].items()),
                error=float(row["error"]),
                tolerance=float(row["tolerance"]),
                passed=row["passed"],
            )
            for row in self.figures.get("compared", [])
        ]

    @property
    def margin(self) -> float | None:
        """Return the worst error over its tolerance: above 1 the check fails."""
        levels = self.figures.get("check", {}).values()
        return max(
            (item["worst"] / item["tolerance"] for item in levels if item["tolerance"]),
            default=None,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """One benchmark of one build, milliseconds."""

    at_s: float
    low_ms: float
    median_ms: float
    high_ms: float


def read(root: Path) -> tuple[Build, ...]:
    """Return the builds that the history remembers, oldest first."""
    found = []
    for line in store_builds.read(root / history.FILE):
        if line.get("schema") != history.SCHEMA:
            continue
        with contextlib.suppress(KeyError, TypeError, ValueError):
            found.append(
                Build(
                    at_s=float(line["at"]),
                    words=tuple(line["words"]),
                    exit_code=int(line["exit_code"]),
                    wall_s=float(line["wall_s"]),
                    counts=dict(line["counts"]),
                    actions=dict(line["actions"]),
                    results=dict(line["results"]),
                    checked=frozenset(line.get("checked", ())),
                )
            )
    return tuple(found)


def cell(
    root: Path, found: tuple[Build, ...], pair: str, needed: Collection[str]
) -> Cell:
    """Return the newest that is known of `model@target`, which needs these tasks.

    A task that failed and ended well since is no failure; and a check says nothing of
    what was made anew after it.
    """
    since: set[str] = set()
    later: set[str] = set()  # made after the check was last known to stand
    stood = False
    newest: dict[str, Any] = {}
    for build in reversed(found):
        failed = {
            task: str(item.get("message", ""))
            for task, item in build.actions.items()
            if item["how"] == "failed" and task not in since
            # A manifest that is wrong by now has no plan.
            if task in needed or task.partition(":")[2] == pair
        }
        figures = build.results.get(pair, {})
        if failed or "passed" in figures:
            anew = later.intersection(needed)
            changed = any(stage_of(task) not in JUDGING for task in anew)
            if changed:
                figures = {k: x for k, x in figures.items() if k not in VERDICT}
            return Cell(pair, figures | newest, failed, build.at_s, changed)
        newest = newest or figures
        since |= build.actions.keys()
        stood = stood or pair in build.checked
        if not stood:
            later |= build.actions.keys()
    if newest:
        return Cell(pair, newest)
    model, _, target = pair.partition("@")
    return Cell(pair, history.figures(root, model, target))


def benchmarks(found: tuple[Build, ...]) -> dict[tuple[str, str], list[Point]]:
    """Return the benchmarks over time, by (model@target, what was timed).

    A build that restored an old benchmark measured nothing: it adds no point.
    """
    series: dict[tuple[str, str], list[Point]] = {}
    for build in found:
        for pair, figures in build.results.items():
            if build.actions.get(f"bench:{pair}", {}).get("how") != "ran":
                continue
            for run in figures.get("bench", []):
                sizes = " ".join(f"{name} {n}" for name, n in run["sizes"].items())
                point = _point(build.at_s, run)
                series.setdefault((pair, f"{run['entry_point']} {sizes}"), []).append(
                    point
                )
    return series


def _point(at_s: float, run: dict[str, Any]) -> Point:
    """Return a benchmark with the quartiles of its repetitions."""
    times = run["repetitions_ms"] or [run["latency_ms"]["median"]]
    if len(times) == 1:
        return Point(at_s, times[0], times[0], times[0])
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    return Point(at_s, low, median, high)
