"""Define the specification of a quality measurement."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.model.runner import Runner

QUALITY = "quality.json"
TEXT = "alice.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class QualitySpec:
    """The model to measure, with rounded weights and with the source's."""

    task: str  # its name in messages: "quality stories15m-i8@x86_64"
    n_vocab: int
    n_ctx: int
    runner: Runner | None  # of the target; None: the oracle computes the rounded model
    scope: str  # of the parameters
    source_quantised: bool  # whether the source has these blocks already
