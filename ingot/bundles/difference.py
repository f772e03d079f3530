"""Define what `doit diff` finds between two bundles, and print it as a JSON Schema.

python -m ingot.bundles.difference > docs/diff.schema.json
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA = "ingot.diff.v1"


class Level(StrEnum):
    """What a difference means to those who call the model, as semantic versions do."""

    NONE = "none"
    PATCH = "patch"
    MINOR = "minor"
    MAJOR = "major"


ORDER = tuple(Level)


def highest(levels: list[Level]) -> Level:
    """Return the highest of some levels."""
    return max(levels, key=ORDER.index, default=Level.NONE)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that differs."""

    area: str = field(
        metadata={"doc": "contract, files, module, flags, compiler, weights or check"}
    )
    what: str = field(metadata={"doc": "a key of bundle.json, a file or a tensor"})
    before: Any
    after: Any
    level: str = field(metadata={"doc": "patch, minor or major"})
    numbers: dict[str, float] = field(
        default_factory=dict,
        metadata={
            "doc": "of a tensor: max_abs and mean_abs, or the share that differs"
        },
    )
    causes: tuple[str, ...] = field(
        default=(), metadata={"doc": "the changed inputs that can be the reason"}
    )


@dataclass(frozen=True, slots=True)
class Timing:
    """The times of one benchmark; they differ between builds of equal bundles."""

    entry_point: str
    sizes: dict[str, int]
    before_ms: float
    after_ms: float


@dataclass(frozen=True, slots=True)
class Difference:
    """What differs between two bundles."""

    before: str = field(metadata={"doc": "MODEL@TARGET"})
    after: str
    level: str = field(metadata={"doc": "none, patch, minor or major"})
    changes: tuple[Change, ...]
    inputs: tuple[str, ...] = field(
        metadata={"doc": "the recorded inputs of the build that changed"}
    )
    benchmarks: tuple[Timing, ...] = field(
        metadata={"doc": "where both are at hand; they do not count as a difference"}
    )
    notes: tuple[str, ...] = field(metadata={"doc": "what could not be compared"})
    schema: str = SCHEMA
