"""Define the specification of one model's check on one target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """The comparisons to report, and facts about the target for the report."""

    task: str  # its name in messages: "check clm-60m@x86_64"
    model: str
    target: str
    device: str
    emulated: bool
    judge: str | None  # "transformers 5.23.0, torch 2.13.0"
    has_tokenizer: bool
    is_rounded: bool  # whether targets round the weights
    is_quantised: bool  # whether the source has the stored blocks already
    unmeasured: str | None  # why their cost is not in quality.json
    gates: dict[str, float]  # "max_kl", "min_top_1", "max_perplexity_ratio"
    pieces: tuple[str, ...]  # the files of rows
