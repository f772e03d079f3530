"""Read the checkout's history as builds, and each model's newest figures."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingot.engine import json_lines
from ingot.engine.actions import stage_of
from ingot.project import history

# Stages that do not change what a bundle ships.
JUDGING = ("check", "bench", "bundle")

# The figures of a check.
VERDICT = ("passed", "check", "judge", "quality")


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
    checked: frozenset[str] = (
        frozenset()
    )  # "model@target" whose check was still up to date


@dataclass(frozen=True, slots=True)
class Comparison:
    """One row of the report of a check."""

    level: str
    name: str  # the component, the block
    sizes: str
    error: float  # the largest one, absolute
    tolerance: float
    passed: bool

    @property
    def ratio(self) -> float:
        """Return the error divided by its tolerance; infinity for NaN."""
        if not math.isfinite(self.error):
            return math.inf
        if self.tolerance:
            return self.error / self.tolerance
        return math.inf if self.error else 0.0


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known about a model on a target: figures, or the tasks that failed."""

    pair: str
    figures: dict[str, Any]
    failed: dict[str, str] = field(default_factory=dict)  # by task: its message
    at_s: float = 0.0
    changed: bool = False  # whether it changed since it was checked
    unchecked: str = ""  # why it cannot be checked here
    weights: str = ""  # "synthetic weights", or "" where they are a checkpoint's

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
        """Return the comparisons of the check that failed."""
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
        """Return the worst error divided by its tolerance; above 1 the check fails."""
        levels = self.figures.get("check", {}).values()
        return max(
            (item["worst"] / item["tolerance"] for item in levels if item["tolerance"]),
            default=None,
        )


@dataclass(frozen=True, slots=True)
class Point:
    """One benchmark in one build, in milliseconds."""

    at_s: float
    low_ms: float
    median_ms: float
    high_ms: float


def read(root: Path) -> tuple[Build, ...]:
    """Return the builds in the history, oldest first."""
    found = []
    for line in json_lines.read(root / history.FILE):
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
    """Return the newest figures of `model@target`, which needs these tasks.

    A task that failed does not count as failed once it has succeeded. A check says
    nothing about artifacts that were rebuilt after it.
    """
    since: set[str] = set()
    later: set[str] = set()  # rebuilt after the check was last up to date
    stood = False
    newest: dict[str, Any] = {}
    for build in reversed(found):
        failed = {
            task: str(item.get("message", ""))
            for task, item in build.actions.items()
            if item["how"] == "failed" and task not in since
            # A manifest with an error has no plan.
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
    """Return the benchmarks over time, by (model@target, timed case).

    A build that restored an old benchmark measured nothing, so it adds no point.
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
