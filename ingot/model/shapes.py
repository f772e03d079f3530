"""Shapes whose dims are names and products of names, compared as such and not by size.

Two dims that happen to be equal in one model are not the same dim: a graph that
confuses them would break on the next model of the family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ingot.model.dims import Product, parse_dim
from ingot.model.graph import TensorType

# No i64 and no f64: portable Vulkan has neither.
ELEMENTS = ("f32", "f16", "bf16", "i32", "i16", "i8", "i1")

# A name, or a size of at most 64 bits; a product of them; products with commas.
_WORD = "(?:[a-z][a-z0-9_]*|[1-9][0-9]{0,17})"
DIM = rf"{_WORD}(?:\*{_WORD})*"
SHAPE = rf"(?:{DIM}(?:, *{DIM})*)?"

_TYPE = re.compile(r"([a-z][a-z0-9]*)\[(.*)\]")


@dataclass(frozen=True, slots=True)
class SymbolicType:
    """A tensor type before its dims have sizes."""

    shape: tuple[Product, ...]
    element: str

    def __str__(self) -> str:
        """Return the type as manifests write it: `f32[batch, seq, n_embd]`."""
        return f"{self.element}[{', '.join(map(str, self.shape))}]"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the dims that occur, each once, in order."""
        return tuple(dict.fromkeys(name for dim in self.shape for name in dim.names))

    def substitute(self, bindings: Mapping[str, Product]) -> SymbolicType:
        """Return the type with every bound name replaced."""
        shape = tuple(dim.substitute(bindings) for dim in self.shape)
        return SymbolicType(shape, self.element)

    def resolve(self, sizes: Mapping[str, int | None]) -> TensorType:
        """Return the type with sizes in it, and names where dims stay dynamic."""
        shape = tuple(dim.resolve(sizes) for dim in self.shape)
        return TensorType(shape, self.element)


def parse_shape(text: str) -> tuple[Product, ...]:
    """Return the dims of text such as `batch, seq, n_embd`."""
    return tuple(parse_dim(word) for word in text.split(",") if word.strip())


def parse_type(text: str) -> SymbolicType:
    """Return the type that text of the right form spells: `f32[batch, seq]`."""
    match = _TYPE.fullmatch(text)
    assert match, text
    return SymbolicType(parse_shape(match.group(2)), match.group(1))
