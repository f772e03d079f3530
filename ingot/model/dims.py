"""Multiply and divide dims by name, and state the range of indices in terms of them.

Two dims that happen to be equal in one model are not the same dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
