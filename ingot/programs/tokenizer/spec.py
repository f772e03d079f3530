"""Define the specification of one conversion of a vocabulary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSpec:
    """The GGUF file whose vocabulary is written."""

    path: str
    label: str  # the file, as messages name it
    output: str
