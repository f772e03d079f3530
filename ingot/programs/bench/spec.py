"""The specification of one model's benchmark on one target."""

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
    """What is timed, and how its target runs on this machine."""

    task: str  # as messages name it: "bench clm-60m@x86_64"
    model: str
    target: str
    machine: dict[str, str]  # what the times belong to
    runner: Runner
    scope: str  # of the parameters
    cases: tuple[BenchCase, ...]
