"""Hold the values that a checkpoint states, and those derived from them.

Each value has its origin. Every reader adds its errors to a list, so that `doit import`
can report all of them at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.imports.families import Family
from ingot.weights.safetensors import StoredTensor


@dataclass(frozen=True, slots=True)
class Said:
    """A value as a checkpoint states it, and where: `config.json: hidden_size`."""

    value: Any
    place: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A validated number, and its origin."""

    value: int | float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a checkpoint states about itself."""

    path: Path  # absolute: a folder, or a GGUF file
    kind: str  # of the manifest's source: "hf-directory", "gguf"
    file: str  # the file with the numbers, as messages name it: "config.json"
    family: Family | None  # None: unknown, and reported
    said: dict[str, Said]  # by the key of a Family's Number
    tensors: tuple[StoredTensor, ...]  # empty where they could not be read
    tokenizer: Path | None
    ends: tuple[Said, ...]  # what it states about the tokens that end a text
    licence: Said | None

    @property
    def naming(self) -> str:
        """Return how its tensors are named, in the manifest's words."""
        return "gguf" if self.kind == "gguf" else "hf"
