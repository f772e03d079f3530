"""Format an outline or a module's content as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from ingot.errors import counted
from ingot.inspection.module_content import Buffer, Content, Function, Section
from ingot.inspection.outline import Outline, Piece, size_bytes
from ingot.model.graph import EntryPoint

Cell = str | int
"""A table aligns numbers to the right of their column."""


def graph_lines(found: Outline, whole: bool) -> Iterator[str]:
    """Yield the lines of a graph: each kind of block once, with its count."""
    graph, pieces = found.graph, found.pieces
    blocks = sum(len(piece.blocks) for piece in pieces)
    calls = sum(len(piece.blocks) * len(piece.uses) for piece in pieces)
    used = {use.instance.name for piece in pieces for use in piece.uses}
    yield (
        f"{counted(len(found.entries), 'entry point')}, {counted(blocks, 'block')} of "
        f"{counted(len(pieces), 'kind')}, {counted(calls, 'call')} of "
        f"{counted(len(used), 'instance')}"
    )
    if whole:
        total = sum(size_bytes(item.type) for item in graph.parameters)
        yield f"{counted(len(graph.parameters), 'parameter')} in {_size(total)}"
    for entry, stretches in found.entries:
        yield from ("", f"entry point {entry.name}")
        yield from _ports(entry, "input")
        for stretch in stretches:
            if stretch.order:
                yield f"  in turn: {stretch.order}"
            for piece in stretch.pieces:
                yield from _piece(piece)
        yield from _ports(entry, "output")


def content_lines(content: Content, sized: str) -> Iterator[str]:
    """Yield the lines of a module; `sized` names the sizes that it assumes."""
    starts = sum(count for item in content.functions for _, count in item.dispatches)
    totals = [counted(len(content.functions), "function")]
    totals += [counted(starts, "dispatch", "dispatches")] if starts else []
    totals += [
        f"{part.title} {len(part.sizes):,} in {_size(part.size_bytes)}"
        for part in content.sections
        if part.sizes
    ]
    yield ", ".join(totals)
    if any(item.buffers for item in content.functions):
        yield f"buffers are measured for {sized}"
    for item in content.functions:
        yield from ("", f"function {item.name}: {_summary(item)}")
        for title in ("operations", "dispatches"):
            counts = getattr(item, title)
            if counts:
                yield f"  {title}"
                yield from table((count, name) for name, count in counts)
        if item.buffers:
            yield "  buffers"
            yield from table(_buffer(buffer) for buffer in item.buffers)
    for part in content.sections:
        if part.sizes:
            yield from ("", *_section(part))


def table(rows: Iterator[tuple[Cell, ...]]) -> Iterator[str]:
    """Yield the rows of a table, indented, with numbers aligned to the right."""
    found = [
        [f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*found, strict=True)]
    for row in found:
        cells = [
            cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        yield f"    {'  '.join(cells)}".rstrip()


def _ports(entry: EntryPoint, way: str) -> Iterator[str]:
    ports = entry.inputs if way == "input" else entry.outputs
    for port in ports:
        note = f", updates {port.updates}" if port.updates else ""
        yield f"  {way} {port.name}: {port.type}{note}"


def _piece(piece: Piece) -> Iterator[str]:
    count, size = piece.parameters
    each = " each" if len(piece.blocks) > 1 else ""
    yield (
        f"  block {piece.kind}{_times(piece)}: {counted(len(piece.uses), 'call')}, "
        f"{counted(count, 'parameter')} in {_size(size)}{each}"
    )
    yield from table(
        (
            ", ".join(use.call.results),
            use.instance.component,
            f"({', '.join(use.operands)})",
            f"-> {', '.join(map(str, use.types))}",
        )
        for use in piece.uses
    )


def _times(piece: Piece) -> str:
    if len(piece.blocks) == 1:
        return ""
    first, last = piece.blocks[0].name, piece.blocks[-1].name
    return f" x {len(piece.blocks)} ({first} ... {last})"


def _summary(item: Function) -> str:
    """Return the counts of a function's content."""
    words = [counted(sum(count for _, count in item.operations), "operation")]
    if item.dispatches:
        starts = sum(count for _, count in item.dispatches)
        kinds = counted(len(item.dispatches), "kind")
        words.append(f"{counted(starts, 'dispatch', 'dispatches')} of {kinds}")
    if item.buffers:
        words.append(
            "sizes not known"
            if item.peak_bytes is None
            else f"{_size(item.peak_bytes)} at most"
        )
    return ", ".join(words)


def _buffer(buffer: Buffer) -> tuple[Cell, ...]:
    size = "?" if buffer.size_bytes is None else f"{buffer.size_bytes:,}"
    return f"{size} bytes", buffer.event


def _section(part: Section) -> Iterator[str]:
    yield f"{part.title}: {_size(part.size_bytes)}"
    yield from table((f"{size:,} bytes", name) for name, size in part.sizes)


def _size(size: int) -> str:
    return counted(size, "byte")
