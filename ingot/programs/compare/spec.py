"""The specification of the comparisons of one part of a model on one target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance

Part = Literal["components", "blocks", "entry-points"]

ROWS = "rows.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareSpec:
    """What is compared, how far it may differ, and how the target runs here."""

    task: str  # as messages name it: "check clm-60m@x86_64"
    part: Part
    runner: Runner
    scope: str  # of the parameters
    tolerances: dict[str, Tolerance]  # by level
    golden: str | None  # the golden file
    tokenizer: str | None
    n_vocab: int | None
