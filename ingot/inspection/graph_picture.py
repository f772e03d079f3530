"""Draw an outline as SVG text, the same for equal graphs.

An entry point is a column that is read downwards. Inputs enter from the left where they
are first used, outputs leave to the right, and an arrow between blocks carries the
values that a block takes from the previous one. A value that skips blocks is named
where it is used, together with its origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from xml.sax.saxutils import escape

from ingot.inspection.outline import Outline, Piece, Stretch
from ingot.model.graph import EntryPoint
from ingot.model.shapes import TensorType
from ingot.report import svg

# Pixels. A character of the 12 px monospaced font is 7.2 wide.
CHARACTER, LINE, MARGIN, PADDING = 7.2, 16, 24, 10
ARROW = 22  # the arrow's length above its label, and below it
SIDE = 40  # the arrow's length of an input or an output

STYLE = """
  text { font: 12px monospace; fill: #1a1a1a }
  .title { font-weight: bold }
  .type, .component { fill: #5a5a5a }
  .block { fill: #eef3fa; stroke: #4a6fa5 }
  .port { fill: #f7f2e4; stroke: #a58a4a }
  line { stroke: #4a4a4a; marker-end: url(#tip) }
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A block as it is drawn."""

    title: str
    rows: tuple[tuple[str, str], ...]  # (call with its operands, its results)
    inputs: tuple[str, ...]  # from the entry point: "mask: i32[batch, seq]"
    arriving: tuple[str, ...]  # from the previous block, on the arrow
    outputs: tuple[str, ...]  # of the entry point

    @property
    def lines(self) -> int:
        """Return the height of the box in lines, including the tags at its sides."""
        return max(1 + len(self.rows), len(self.inputs), len(self.outputs))


def picture(found: Outline) -> str:
    """Return the SVG text of an outline."""
    columns = [_boxes(entry, stretches) for entry, stretches in found.entries]
    body: list[str] = []
    left, bottom = float(MARGIN), 0.0
    for (entry, _), boxes in zip(found.entries, columns, strict=True):
        lines, width, end = _column(entry.name, boxes, left)
        body += lines
        left += width + MARGIN
        bottom = max(bottom, end)
    title = escape(f"{found.graph.model}, layout {found.graph.layout}")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left:.0f}" '
            f'height="{bottom + MARGIN:.0f}">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" '
            'markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0 L8 4 L0 8 z" fill="#4a4a4a"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def _boxes(entry: EntryPoint, stretches: tuple[Stretch, ...]) -> list[Box]:
    """Return the boxes of an entry point, from top to bottom."""
    outside = {port.value for port in entry.inputs}
    pieces = [(s.order, piece) for s in stretches for piece in s.pieces]
    names = _names([piece for _, piece in pieces])
    last = {port.value: "" for port in entry.outputs}
    for name, (_, piece) in zip(names, pieces, strict=True):
        last |= {v: name for b in piece.blocks for v, _ in b.outputs if v in last}
    made: dict[str, str] = {}
    boxes, before = [], ""
    for name, (order, piece) in zip(names, pieces, strict=True):
        block = piece.blocks[0]
        types = dict(block.types)
        taken = [(value, types[formal]) for formal, value in block.inputs]
        left = [
            _named(value, kind, made.get(value, ""))
            for value, kind in taken
            if made.get(value, "") != before or not before
            if value in outside or value in made
        ]
        arriving = [
            _named(value, kind)
            for value, kind in taken
            if before and made.get(value) == before
        ]
        made |= {value: name for b in piece.blocks for value, _ in b.outputs}
        boxes.append(
            Box(
                title=_title(name, piece, order),
                rows=tuple(_rows(piece)),
                inputs=tuple(left),
                arriving=tuple(arriving),
                outputs=tuple(
                    f"{port.name}: {port.type}"
                    for port in entry.outputs
                    if last[port.value] == name
                ),
            )
        )
        before = name
    return boxes


def _names(pieces: list[Piece]) -> list[str]:
    """Return the kinds; for steps of the same kind, the first block of each."""
    kinds = [piece.kind for piece in pieces]
    return [
        piece.kind if kinds.count(piece.kind) == 1 else piece.blocks[0].name
        for piece in pieces
    ]


def _title(name: str, piece: Piece, order: str) -> str:
    count = len(piece.blocks)
    title = name if count == 1 else f"{name} × {count}"
    return f"{title}, in turn: {order}" if order else title


def _rows(piece: Piece) -> Iterator[tuple[str, str]]:
    for use in piece.uses:
        values = [name for name in use.call.operands if name in dict(_values(piece))]
        made = ", ".join(use.call.results)
        text = f"{made} = {use.instance.component}({', '.join(values)})"
        yield text, ", ".join(map(str, use.types))


def _values(piece: Piece) -> tuple[tuple[str, TensorType], ...]:
    return piece.blocks[0].types


def _named(value: str, kind: TensorType, source: str = "") -> str:
    return f"{value}: {kind}{f' of {source}' if source else ''}"


def _column(name: str, boxes: list[Box], left: float) -> tuple[list[str], float, float]:
    """Return a column's lines, its width and its end."""
    before = max((_wide(box.inputs) for box in boxes), default=0.0)
    after = max((_wide(box.outputs) for box in boxes), default=0.0)
    calls = max((len(text) for box in boxes for text, _ in box.rows), default=0)
    types = max((len(text) for box in boxes for _, text in box.rows), default=0)
    titles = max((len(box.title) for box in boxes), default=0)
    width = max(calls + 2 + types, titles) * CHARACTER + 2 * PADDING
    place = left + before
    top = float(MARGIN + LINE)
    lines = [svg.text(place, top, f"entry point {name}", "title")]
    top += LINE
    for number, box in enumerate(boxes):
        if number:
            lines += _down(place + width / 2, top, box)
            top += _gap(box)
        lines += _box(box, place, top, width, calls)
        top += (box.lines + 0.5) * LINE
    return lines, before + width + after, top


def _wide(tags: tuple[str, ...]) -> float:
    if not tags:
        return 0.0
    return max(map(len, tags)) * CHARACTER + 2 * PADDING + SIDE


def _gap(box: Box) -> float:
    return 2 * ARROW + max(0, len(box.arriving) - 1) * LINE


def _down(middle: float, top: float, box: Box) -> Iterator[str]:
    """Yield the arrow from the previous block, and the values that it carries."""
    end = top + _gap(box)
    yield _arrow(middle, top, middle, end)
    first = top + ARROW + 4
    for number, text in enumerate(box.arriving):
        yield svg.text(middle + PADDING, first + number * LINE, text, "type")


def _box(box: Box, left: float, top: float, width: float, calls: int) -> Iterator[str]:
    high = (box.lines + 0.5) * LINE
    yield svg.rect(left, top, width, high, "block")
    yield svg.text(left + PADDING, top + LINE, box.title, "title")
    for number, (call, kind) in enumerate(box.rows, 2):
        line = top + number * LINE
        yield svg.text(left + PADDING, line, call, "component")
        yield svg.text(left + PADDING + (calls + 2) * CHARACTER, line, kind, "type")
    for number, text in enumerate(box.inputs):
        line = top + number * LINE + 3
        wide = len(text) * CHARACTER + 2 * PADDING
        start = left - SIDE - wide
        yield svg.rect(start, line, wide, LINE - 2, "port")
        yield svg.text(start + PADDING, line + LINE - 5, text, "type")
        yield _arrow(left - SIDE, line + LINE / 2, left, line + LINE / 2)
    for number, text in enumerate(box.outputs):
        line = top + number * LINE + 3
        start = left + width + SIDE
        wide = len(text) * CHARACTER + 2 * PADDING
        yield svg.rect(start, line, wide, LINE - 2, "port")
        yield svg.text(start + PADDING, line + LINE - 5, text, "type")
        yield _arrow(left + width, line + LINE / 2, start, line + LINE / 2)


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
