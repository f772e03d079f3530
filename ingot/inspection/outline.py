"""Summarise a graph: each kind of block once, with the number of times it occurs.

Layers that differ only in their parameters are one piece. Layers that alternate, such
as those with sliding and with full attention, are the pieces of one stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from ingot.model.graph import (
    PARAMETER,
    Block,
    Call,
    EntryPoint,
    Graph,
    Instance,
    parameters_of,
)
from ingot.model.shapes import TensorType

BITS = {"f32": 32, "f16": 16, "bf16": 16, "i32": 32, "i16": 16, "i8": 8, "i1": 8}
"""Size of an element as it is stored; a boolean takes a byte."""

Wanted = Callable[..., bool]
"""Whether any of these names is to be shown."""


@dataclass(frozen=True, slots=True)
class Use:
    """One call of a component."""

    call: Call
    instance: Instance
    types: tuple[TensorType, ...]  # of the results, in order

    @property
    def operands(self) -> tuple[str, ...]:
        """Return the operands as the manifest names them."""
        return tuple(name.removeprefix(PARAMETER) for name in self.call.operands)


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive blocks of one kind, which the first block represents."""

    kind: str
    blocks: tuple[Block, ...]
    uses: tuple[Use, ...]  # of the first block
    parameters: tuple[int, int]  # number and size in bytes of the first block's


@dataclass(frozen=True, slots=True)
class Stretch:
    """A run of alternating kinds: its pieces, and their order."""

    pieces: tuple[Piece, ...]
    order: str  # "3 x (5 x layer.local, 1 x layer.global)"; "" for one kind


@dataclass(frozen=True, slots=True)
class Outline:
    """A summary of a graph for people."""

    graph: Graph
    entries: tuple[tuple[EntryPoint, tuple[Stretch, ...]], ...]

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Return every piece of every entry point."""
        return tuple(
            piece
            for _, stretches in self.entries
            for stretch in stretches
            for piece in stretch.pieces
        )


def outline(graph: Graph, wanted: Wanted) -> Outline:
    """Return the part of a graph that a filter selects.

    The name of an entry point or a block selects all of it; the name of a call, a
    component or a parameter selects the calls that use it.
    """
    sizes = {item.name: size_bytes(item.type) for item in graph.parameters}
    entries = []
    for entry in graph.entry_points:
        stretches = tuple(_stretches(graph, entry, sizes))
        if not wanted(entry.name):
            found = (_left(stretch, wanted) for stretch in stretches)
            stretches = tuple(stretch for stretch in found if stretch.pieces)
        if stretches:
            entries.append((entry, stretches))
    return Outline(graph, tuple(entries))


def size_bytes(kind: TensorType) -> int:
    """Return the size of a tensor with a static shape."""
    return prod(int(dim) for dim in kind.shape) * BITS[kind.element] // 8


def _stretches(
    graph: Graph, entry: EntryPoint, sizes: dict[str, int]
) -> Iterator[Stretch]:
    for _, found in groupby(entry.blocks, key=lambda block: block.kind.split(".")[0]):
        blocks = tuple(found)
        runs = [
            (kind, len(list(run)))
            for kind, run in groupby(blocks, key=lambda block: block.kind)
        ]
        pieces = tuple(
            _piece(graph, kind, tuple(b for b in blocks if b.kind == kind), sizes)
            for kind in dict.fromkeys(kind for kind, _ in runs)
        )
        yield Stretch(pieces, _order(runs) if len(pieces) > 1 else "")


def _order(runs: list[tuple[str, int]]) -> str:
    """Return the shortest repeated sequence, and the number of repetitions."""
    length = next(
        n for n in range(1, len(runs) + 1) if runs[:n] * (len(runs) // n) == runs
    )
    turn = ", ".join(f"{count} x {kind}" for kind, count in runs[:length])
    times = len(runs) // length
    return f"{times} x ({turn})" if times > 1 else turn


def _piece(
    graph: Graph, kind: str, blocks: tuple[Block, ...], sizes: dict[str, int]
) -> Piece:
    types = dict(blocks[0].types)
    uses = tuple(
        Use(call, graph.instance(call.instance), tuple(types[r] for r in call.results))
        for call in blocks[0].calls
    )
    return Piece(kind, blocks, uses, _taken(uses, sizes))


def _taken(uses: tuple[Use, ...], sizes: dict[str, int]) -> tuple[int, int]:
    names = parameters_of(use.call for use in uses)
    return len(names), sum(sizes[name] for name in names)


def _left(stretch: Stretch, wanted: Wanted) -> Stretch:
    """Return the pieces with the selected calls, or all calls of a selected block."""
    pieces = []
    for piece in stretch.pieces:
        if wanted(piece.kind, *(block.name for block in piece.blocks)):
            pieces.append(piece)
            continue
        uses = tuple(
            use
            for use in piece.uses
            if wanted(
                use.call.name, use.instance.component, use.instance.name, *use.operands
            )
        )
        if uses:
            pieces.append(replace(piece, uses=uses))
    return Stretch(tuple(pieces), stretch.order)
