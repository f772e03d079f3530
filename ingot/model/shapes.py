"""Compare shapes by the names of their dims and products of them, not by size.

Two dims that happen to be equal in one model are not the same dim: a graph that
confuses them would break on the next model of the family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ingot.codec import KeepsJson

# No i64 and no f64: portable Vulkan has neither.
ELEMENTS = ("f32", "f16", "bf16", "i32", "i16", "i8", "i1")

# A name, or a size of at most 64 bits; a product of them; products with commas.
_WORD = "(?:[a-z][a-z0-9_]*|[1-9][0-9]{0,17})"
DIM = rf"{_WORD}(?:\*{_WORD})*"
SHAPE = rf"(?:{DIM}(?:, *{DIM})*)?"

_TYPE = re.compile(r"([a-z][a-z0-9]*)\[(.*)\]")

Dim = int | str
"""A static size, or the name of a dim that stays dynamic (`batch`, `seq`)."""


@dataclass(frozen=True, slots=True)
class Product:
    """A dim: a size times dims by name, `2*n_head*head_dim`."""

    size: int
    sorted_names: tuple[str, ...]
    # In the order in which they were written, for messages.
    names: tuple[str, ...] = field(compare=False)

    @classmethod
    def of(cls, size: int, *names: str) -> Product:
        """Return a size times these dims."""
        return cls(size, tuple(sorted(names)), names)

    def __str__(self) -> str:
        """Return the product as manifests write it."""
        shown = self.names if self.size == 1 else (str(self.size), *self.names)
        return "*".join(shown) or "1"

    def times(self, other: Product) -> Product:
        """Return the product of both."""
        return Product.of(self.size * other.size, *self.names, *other.names)

    def divided_by(self, other: Product) -> Product | None:
        """Return what times `other` gives this; None where nothing does."""
        names = list(self.names)
        for name in other.names:
            if name not in names:
                return None
            names.remove(name)
        if self.size % other.size:
            return None
        return Product.of(self.size // other.size, *names)

    def substitute(self, bindings: Mapping[str, Product]) -> Product:
        """Return the product with every bound name replaced."""
        result = Product.of(self.size)
        for name in self.names:
            result = result.times(bindings.get(name) or Product.of(1, name))
        return result

    def resolve(self, sizes: Mapping[str, int | None]) -> Dim:
        """Return the size, or the name of the dynamic dim that it is.

        `sizes` has every name; None says that the dim stays dynamic.
        """
        total = self.size
        for name in self.names:
            size = sizes[name]
            if size is None:
                return str(self)
            total *= size
        return total


@dataclass(frozen=True, slots=True)
class Limit:
    """The range of an integer tensor whose values a component uses as indices."""

    text: str  # "[0, n_ctx - seq]"
    most: Product  # n_ctx
    less: Product | None  # seq
    closed: bool  # whether the last is among them

    @property
    def names(self) -> tuple[str, ...]:
        """Return the dims that the limit depends on."""
        return (*self.most.names, *(self.less.names if self.less else ()))


def parse_dim(text: str) -> Product:
    """Return the product that text such as `n_head*head_dim` or `4` spells."""
    size, names = 1, []
    for word in text.split("*"):
        word = word.strip()
        if word.isdigit():
            size *= int(word)
        else:
            names.append(word)
    return Product.of(size, *names)


@dataclass(frozen=True)
class TensorType(KeepsJson):
    """A tensor's shape and element type (`f32`, `i32`, ...)."""

    shape: tuple[Dim, ...]
    element: str

    def __str__(self) -> str:
        """Return the type as manifests write it: `f32[batch, seq, 384]`."""
        return f"{self.element}[{', '.join(str(dim) for dim in self.shape)}]"


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
