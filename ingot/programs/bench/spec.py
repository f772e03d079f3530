"""Define the specification of one model's benchmark on one target."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.model.runner import Runner


@dataclass(frozen=True, slots=True)
class BenchCase:
    """One size at which an entry point is timed."""

    entry_point: str
    sizes: dict[str, int]  # by the name of a dynamic dim


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchSpec:
    """The entry points and sizes to time, and the runner of the target."""

    task: str  # its name in messages: "bench clm-60m@x86_64"
    model: str
    target: str
    weights: str  # "synthetic weights", or "" where they are a checkpoint's
    machine: dict[str, str]  # the machine that measures the times
    runner: Runner
    scope: str  # of the parameters
    cases: tuple[BenchCase, ...]
