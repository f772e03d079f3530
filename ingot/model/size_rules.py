"""Read which sizes a component supports, from the dims of its header.

    even head_dim >= 4          an even number, and not less than that
    n_embd = n_left + n_right   as large as those together
    n_embd multiple of n_head   that many parts of one size

A size that the compiler rejects or gets wrong is an error before anything is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ingot.errors import Position

_DIM = re.compile(
    r"(?P<even>even )?(?P<name>[a-z][a-z0-9_]*)"
    r"(?: >= (?P<least>[0-9]+))?(?: = (?P<terms>[a-z0-9_ +]+))?"
    r"(?: multiple of (?P<unit>[a-z][a-z0-9_]*))?"
)


@dataclass(frozen=True, slots=True)
class SizeRule:
    """The sizes that a component supports of one of its dims."""

    dim: str
    text: str  # "even head_dim >= 4"
    position: Position  # of the header's Dims
    even: bool
    least: int  # 0: any
    terms: tuple[str, ...]  # dims that it is as large as together; (): any size
    unit: str  # dim that it is a multiple of; "": any size

    @property
    def dims(self) -> tuple[str, ...]:
        """Return every dim whose size the rule is about."""
        return (self.dim, *self.terms, *((self.unit,) if self.unit else ()))

    def broken(self, sizes: Mapping[str, int]) -> Iterator[str]:
        """Yield what is wrong with the dim's size: `is odd; expected ..., found 7`."""
        found, parts = sizes[self.dim], [sizes[name] for name in self.terms]
        if found < self.least:
            yield f"is too small; expected {self.least} or more, found {found}"
        if self.even and found % 2:
            yield f"is odd; expected an even number, found {found}"
        if parts and found != sum(parts):
            shown = " + ".join(map(str, parts))
            yield f"is a sum; expected {shown}, found {found}"
        if self.unit and found % (unit := sizes[self.unit]):
            expected = f"expected a multiple of {self.unit} = {unit}"
            yield f"is of equal parts; {expected}, found {found}"


def parse_dim_rule(word: str, position: Position) -> tuple[str, SizeRule | None]:
    """Return the name of a dim in the header, and the rule about its size, if any.

    A word of another form is returned as a name, which no argument has.
    """
    match = _DIM.fullmatch(word)
    if not match or match["name"] == word:
        return word, None
    terms = tuple(term.strip() for term in (match["terms"] or "").split("+") if term)
    name, least = match["name"], int(match["least"] or 0)
    even, unit = bool(match["even"]), match["unit"] or ""
    return name, SizeRule(name, word, position, even, least, terms, unit)
