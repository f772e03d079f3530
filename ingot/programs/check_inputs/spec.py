"""The specification of the inputs of a model's checks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckInputsSpec:
    """Which forms of block the model has, and how much its targets can run."""

    task: str  # as messages name it: "check inputs of clm-60m@lanes8"
    emulated: bool
    forms: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
