"""A graph in, each of its blocks once, with how often it comes, out.

Layers that differ in their parameters alone are one piece; those that take turns, as
sliding and full attention do, are pieces of one stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from ingot.model.graph import Block, Call, EntryPoint, Graph, Instance, TensorType
from ingot.model.oracle import PARAMETER

BITS = {"f32": 32, "f16": 16, "bf16": 16, "i32": 32, "i16": 16, "i8": 8, "i1": 8}
"""Of an element as it is stored; a truth value takes a byte."""

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
    """Blocks of one kind in a row, of which the first stands for all."""

    kind: str
    blocks: tuple[Block, ...]
    uses: tuple[Use, ...]  # of the first block
    parameters: tuple[int, int]  # how many the first block takes, and their bytes


@dataclass(frozen=True, slots=True)
class Stretch:
    """What comes between two other kinds: pieces, and in which order they do."""

    pieces: tuple[Piece, ...]
    order: str  # "3 x (5 x layer.local, 1 x layer.global)"; "" where there is one


@dataclass(frozen=True, slots=True)
class Outline:
    """A graph for people."""

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
    """Return what a filter leaves of a graph.

    A name of an entry point or a block shows all of it, one of a call, a component or a
    parameter the calls that it is about.
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
    """Return what a tensor of static shape takes."""
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
    """Return the shortest turn, and how often it is taken."""
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
    names = {
        name.removeprefix(PARAMETER)
        for use in uses
        for name in use.call.operands
        if name.startswith(PARAMETER)
    }
    return len(names), sum(sizes[name] for name in names)


def _left(stretch: Stretch, wanted: Wanted) -> Stretch:
    """Return the pieces with the calls that are wanted; all of a block named."""
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
