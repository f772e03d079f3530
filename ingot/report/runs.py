"""The checkout's history in, builds as values and each model's newest figures out."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot import history
from ingot.edges import builds


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


@dataclass(frozen=True, slots=True)
class Cell:
    """What is known of a model on a target: figures, or the task that failed."""

    pair: str
    figures: dict[str, Any]
    failed: tuple[str, ...] = ()
    at_s: float = 0.0

    @property
    def status(self) -> str:
        """Return "failed", "passed", "built" (unchecked), or "none"."""
        if self.failed or self.figures.get("passed") is False:
            return "failed"
        if "passed" in self.figures:
            return "passed"
        return "built" if self.figures.get("sizes") else "none"

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
    for line in builds.read(root / history.FILE):
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
                )
            )
    return tuple(found)


def cell(
    root: Path, found: tuple[Build, ...], pair: str, needed: Collection[str]
) -> Cell:
    """Return the newest that is known of `model@target`, which needs these tasks.

    A task that failed and ended well since is no failure.
    """
    since: set[str] = set()
    for build in reversed(found):
        failed = tuple(
            task
            for task, item in build.actions.items()
            if item["how"] == "failed" and task not in since
            # A manifest that is wrong by now has no plan.
            if task in needed or task.partition(":")[2] == pair
        )
        if failed or pair in build.results:
            return Cell(pair, build.results.get(pair, {}), failed, build.at_s)
        since |= build.actions.keys()
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
