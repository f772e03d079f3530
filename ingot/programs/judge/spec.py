"""Define the specification of an oracle's comparison with golden outputs."""

from __future__ import annotations

from dataclasses import dataclass

ROWS = "rows.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """The comparison's name in messages."""

    task: str  # "judge stories15m"
