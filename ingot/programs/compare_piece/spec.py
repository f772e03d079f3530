"""The specification of the comparisons of one piece of a model on one target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance

PieceLevel = Literal["component", "block", "propagated"]

ROWS = "rows.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePieceSpec:
    """What is compared, how far it may differ, and how the target runs here."""

    task: str  # as messages name it: "check clm-60m@x86_64"
    level: PieceLevel
    inputs: tuple[str, ...]  # the files that the oracle recorded
    modules: dict[str, str]  # by block, of a chain; "" of anything else
    runner: Runner
    scope: str  # of the parameters
    tolerance: Tolerance
