"""Hold the values that a checkpoint states, and those derived from them.

Each value has its origin. Every reader adds its errors to a list, so that `doit import`
can report all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingot.imports.families import Family
from ingot.weights.safetensors import StoredTensor


@dataclass(frozen=True, slots=True)
class Stated:
    """A value that a checkpoint states, and its origin."""

    value: Any
    origin: str  # "config.json: hidden_size"


@dataclass(frozen=True, slots=True)
class RopeSettings:
    """What a config.json says about rope, beyond what it states as single keys."""

    # By kind of layer: the manifest's section of its table.
    scaling: Mapping[str, Stated]
    notes: tuple[str, ...]


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
    stated: dict[str, Stated]  # by the key of a Family's Number
    tensors: tuple[StoredTensor, ...]  # empty if they could not be read
    tokenizer: Path | None
    ends: tuple[Stated, ...]  # what it states about the tokens that end a text
    licence: Stated | None
    vocabulary: bool = False  # a GGUF has one of its own
    # How its texts begin, end and are drawn, by the manifest's keys.
    text: dict[str, Stated] = field(default_factory=dict)
    rope: RopeSettings = RopeSettings({}, ())

    @property
    def naming(self) -> str:
        """Return how its tensors are named, in the manifest's words."""
        return "gguf" if self.kind == "gguf" else "hf"
