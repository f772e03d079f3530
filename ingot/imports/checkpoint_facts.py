"""What a checkpoint says of itself, and what is made of it: values with their places.

Every reader adds what is wrong to a list, so that all of it is told at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.imports.families import Family
from ingot.weights.safetensors import StoredTensor


@dataclass(frozen=True, slots=True)
class Said:
    """A value as a checkpoint has it, and where: `config.json: hidden_size`."""

    value: Any
    place: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A number that is right, and where it comes from."""

    value: int | float
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a checkpoint says of itself."""

    path: Path  # absolute: a folder, or a GGUF file
    kind: str  # of the manifest's source: "hf-directory", "gguf"
    file: str  # that the numbers stand in, as messages name it: "config.json"
    family: Family | None  # None: not a known one, and said so
    said: dict[str, Said]  # by the key that a Family's Number has
    tensors: tuple[StoredTensor, ...]  # none where they could not be read
    tokenizer: Path | None
    ends: tuple[Said, ...]  # what it says of the tokens that end a text
    licence: Said | None

    @property
    def names(self) -> str:
        """Return how its tensors are named, in the manifest's words."""
        return "gguf" if self.kind == "gguf" else "hf"
