"""Define the specification of an entry point's comparisons on one target."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance

ROWS = "rows.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareEntryPointSpec:
    """The entry point to compare, its tolerances, and the runner of the target."""

    task: str  # its name in messages: "check clm-60m@x86_64"
    entry_point: str
    runner: Runner
    scope: str  # of the parameters
    tolerances: dict[str, Tolerance]  # by level
    golden: str | None  # the golden file
    tokenizer: str | None
    n_vocab: int | None
