"""Define the specification of one piece's comparisons on one target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance

PieceLevel = Literal["component", "block", "propagated"]

ROWS = "rows.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparisons of one level."""

    level: PieceLevel
    inputs: tuple[str, ...]  # the files that the oracle recorded
    modules: dict[str, str]  # by block, of a chain; "" of anything else
    tolerance: Tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePieceSpec:
    """The comparisons of a piece, and the runner of the target."""

    task: str  # its name in messages: "check clm-60m@x86_64"
    comparisons: tuple[Comparison, ...]
    runner: Runner
    scope: str  # of the parameters
