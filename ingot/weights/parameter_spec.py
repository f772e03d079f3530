"""Describe the parameters of the archive, and how a source's values differ from them.

Checkpoints of one model follow different conventions: Hugging Face stores Gemma's norms
less one, and GGUF stores the rows of Llama's queries and keys in pairs. The archive has
one convention, so that both produce the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ingot.weights.element_types import SAFETENSORS
from ingot.weights.rope_table import RopeTable

# In a tensor's name: the number of its expert.
EXPERT = "{expert}"


@dataclass(frozen=True, slots=True)
class Convention:
    """The changes to a tensor's values, in the order of the fields."""

    offset: float = 0.0  # added, in float32
    # Number of heads whose rows are stored in pairs; the archive stores them in halves.
    interleaved_heads: int | None = None

    @property
    def changes_nothing(self) -> bool:
        """Return whether the values need no change."""
        return self == Convention()


@dataclass(frozen=True, slots=True)
class SourceForm:
    """How tensors contain the values of a parameter that has other dims."""

    shape: tuple[int, ...]  # of a tensor
    row: int = 0  # the parameter's first row in it
    # The tensor's dims, split like the parameter's and in the parameter's order; empty
    # if the order is the same.
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One of the tensors as which a packed matrix is stored."""

    name: str  # "blk.0.attn_q.weight.scale"
    argument: str  # the kernel's: "weight_scale"
    element: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """A parameter of the model: its type in the archive, and its tensor."""

    name: str  # "blk.0.attn_q.weight"
    shape: tuple[int, ...]
    # "encoder.layer.0.attention.self.query.weight"; {expert} stands for each expert.
    tensor: str
    source: str | None  # element type in the source: "f32"; None: any supported one
    stored: str  # element type in the archive, or how a packed matrix is quantised
    offset: float = 0.0  # Hugging Face subtracts it
    interleaved_heads: int | None = None  # number of heads that GGUF stores in pairs
    table: RopeTable | None = None  # computed, and in no source
    form: SourceForm | None = None  # if the tensor has other dims
    tile_n: int = 1  # rows per tile
    parts: tuple[Part, ...] = ()  # empty if it is stored unpacked

    def __str__(self) -> str:
        """Return the type and shape of the tensor, for messages."""
        element = SAFETENSORS[self.source] if self.source else ""
        return f"{element}[{', '.join(map(str, self.tensor_shape))}]"

    @property
    def tensors(self) -> tuple[str, ...]:
        """Return the names of the tensors that contain its values, in order."""
        if EXPERT not in self.tensor:
            return (self.tensor,)
        return tuple(self.tensor.replace(EXPERT, str(n)) for n in range(self.shape[0]))

    @property
    def piece(self) -> tuple[int, ...]:
        """Return the shape of the part that comes from one tensor."""
        return self.shape[1:] if EXPERT in self.tensor else self.shape

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """Return the shape that a tensor must have."""
        return self.form.shape if self.form else self.piece

    def part(self, part: Part) -> ParameterSpec:
        """Return the parameter that stores one part of this one."""
        return replace(
            self, name=part.name, shape=part.shape, stored=part.element, parts=()
        )

    def convention(self, path: Path) -> Convention:
        """Return the changes that values of a tensor in that file need."""
        match container(path):
            case "gguf":
                return Convention(interleaved_heads=self.interleaved_heads)
            case "irpa":
                return Convention()
        return Convention(offset=self.offset)


def container(path: Path) -> str:
    """Return the format of a file of weights: "safetensors", "gguf" or "irpa"."""
    suffix = path.suffix.removeprefix(".")
    return suffix if suffix in ("gguf", "irpa") else "safetensors"
