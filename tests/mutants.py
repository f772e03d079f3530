"""Plant one mistake at a time in the MLIR of a component.

Mistakes that people make: another sign, axis, bound, constant or operand. The name of a
mistake says where it is without line numbers, so that it stays when lines move.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

# An operation, and what it is taken for.
SWAPS = {
    "arith.addf": "arith.subf",
    "arith.subf": "arith.addf",
    "arith.mulf": "arith.addf",
    "arith.divf": "arith.mulf",
    "arith.negf": "math.absf",
    "arith.maximumf": "arith.minimumf",
    "arith.minimumf": "arith.maximumf",
    "arith.addi": "arith.subi",
    "arith.subi": "arith.addi",
    "arith.muli": "arith.addi",
    "arith.maxsi": "arith.minsi",
    "arith.minsi": "arith.maxsi",
    "arith.minui": "arith.maxui",
    "arith.divui": "arith.remui",
    "arith.remui": "arith.divui",
    "arith.andi": "arith.ori",
    "arith.ori": "arith.andi",
    "arith.extsi": "arith.extui",
    "arith.sitofp": "arith.uitofp",
    "arith.shrui": "arith.shrsi",
    "math.exp": "math.exp2",
    "math.log": "math.log2",
    "math.sqrt": "math.absf",
    "math.tanh": "math.absf",
    "math.absf": "math.exp",
    "math.floor": "math.ceil",
}
PREDICATES = {
    "slt": "sle",
    "sle": "slt",
    "sgt": "sge",
    "sge": "sgt",
    "ult": "ule",
    "ule": "ult",
    "eq": "ne",
    "ne": "eq",
    "olt": "ogt",
    "ogt": "olt",
    "oeq": "ogt",
    "uge": "ole",
    "oge": "ogt",
    "ole": "olt",
}
# Where the order of operands says something.
ORDERED = ("arith.subf", "arith.divf", "arith.subi", "arith.divui", "arith.remui")

PLACES = ("axis", "dim", "group", "places", "results")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A component with one mistake."""

    name: str  # "%next arith.addf -> arith.subf"
    kind: str  # "operation": mistakes of one kind are alike
    text: str


def mutants(text: str) -> tuple[Mutant, ...]:
    """Return all mutants, in an order that mixes kinds and places.

    The first of them are of different kinds, as far as there are.
    """
    lines = text.split("\n")
    seen: Counter[str] = Counter()
    found: dict[str, list[Mutant]] = {}
    first = next(i for i, line in enumerate(lines) if line.startswith("module"))
    for number in range(first, len(lines)):
        for kind, name, line in _mistakes(lines[number]):
            where = f"{_value(lines, number)} {name}"
            seen[where] += 1
            if seen[where] > 1:
                where = f"{where} ({seen[where]})"
            changed = "\n".join((*lines[:number], line, *lines[number + 1 :]))
            found.setdefault(kind, []).append(Mutant(where, kind, changed))
    for same in found.values():
        same.sort(key=lambda item: zlib.crc32(item.name.encode()))
    # Mistakes of places only after the others: they are easy to see.
    kinds = sorted(found, key=lambda kind: (kind in PLACES, kind))
    return tuple(
        found[kind][turn]
        for late in (False, True)
        for turn in range(max(map(len, found.values()), default=0))
        for kind in kinds
        if (kind in PLACES) == late and turn < len(found[kind])
    )


def _value(lines: list[str], number: int) -> str:
    """Return the SSA value that a line belongs to."""
    for line in reversed(lines[: number + 1]):
        if match := re.match(r" +(%\w+)(?:, %\w+)* = ", line):
            return match.group(1)
    return "module"


def _mistakes(line: str) -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the name and the text of every mistake on a line."""
    code = line.partition("//")[0]
    match = re.search(r"= ([a-z]+\.\w+)", code)
    operation = match.group(1) if match else ""
    if operation in SWAPS:
        other = SWAPS[operation]
        name = f"{operation} -> {other}"
        yield "operation", name, line.replace(operation, other, 1)
    if operation in ORDERED:
        swapped = re.sub(r"(%\w+), (%\w+) :", r"\2, \1 :", line)
        yield "order", f"{operation} with operands swapped", swapped
    if operation == "arith.select":
        swapped = re.sub(r"(%\w+), (%\w+), (%\w+) :", r"\1, \3, \2 :", line)
        yield "select", "arith.select with branches swapped", swapped
    if match := re.search(r"arith\.cmp[if] (\w+),", code):
        one = match.group(1)
        other = PREDICATES[one]
        yield "predicate", f"{one} -> {other}", line.replace(f" {one},", f" {other},")
    yield from _numbers(line, code)
    yield from _axes(line, code)
    yield from _places(line, code)


def _numbers(line: str, code: str) -> Iterator[tuple[str, str, str]]:
    if match := re.search(r"arith\.constant (\S+) : (f32|i32)", code):
        old, element = match.groups()
        if old.startswith("0x"):
            new = "0.0"
        elif element == "i32":
            new = str(int(old) + 1)
        else:
            new = "0.5" if float(old) == 0 else repr(float(old) * 1.5)
        yield (
            "constant",
            f"{old} -> {new}",
            line.replace(f"constant {old} ", f"constant {new} ", 1),
        )


def _axes(line: str, code: str) -> Iterator[tuple[str, str, str]]:
    if match := re.search(r"linalg\.index (\d)", code):
        axis = int(match.group(1))
        other = axis - 1 if axis else 1
        name = f"index {axis} -> {other}"
        yield "index", name, line.replace(f"index {axis} ", f"index {other} ", 1)
    for match in re.finditer(r"-> \((\w+(?:, \w+)+)\)>", code):
        dims = match.group(1).split(", ")
        dims[-2:] = reversed(dims[-2:])
        new = f"-> ({', '.join(dims)})>"
        changed = line[: match.start()] + new + line[match.end() :]
        yield "map", f"({match.group(1)}) {new[:-1]}", changed


def _places(line: str, code: str) -> Iterator[tuple[str, str, str]]:
    """Yield mistakes of what only moves numbers: sizes, places, groups, order."""
    if match := re.search(r"tensor\.dim (%\w+), %c(\d)", code):
        axis = int(match.group(2))
        new = f"tensor.dim {match.group(1)}, %c{axis - 1 if axis else 1}"
        yield "dim", f"{match.group()} -> {new}", line.replace(match.group(), new, 1)
    for match in re.finditer(r"[\[(]((?:%?\w+, )+%?\w+)[\])]", code):
        items = match.group(1).split(", ")
        # Where neighbours are alike nothing would change: the last pair that differs.
        pairs = [i for i in range(len(items) - 1) if items[i] != items[i + 1]]
        if not pairs or not re.search(r"[%\d]", match.group(1)) or "affine" in code:
            continue
        i = pairs[-1]
        items[i], items[i + 1] = items[i + 1], items[i]
        new = ", ".join(items)
        changed = line[: match.start(1)] + new + line[match.end(1) :]
        yield "places", f"({match.group(1)}) -> ({new})", changed
    if match := re.search(r"\[(\d+)\], \[(\d+), ", code):
        one, two = match.groups()
        new = f"[{one}, {two}], ["
        yield "group", f"{match.group()} -> {new}", line.replace(match.group(), new, 1)
    if match := re.search(r"dim\((\d)\)|(%\w+), (%\w+) *(?:into|:|$)", code):
        if match.group(1) and (axis := int(match.group(1))):
            new = f"dim({axis - 1})"
            yield "axis", f"dim({axis}) -> {new}", line.replace(f"dim({axis})", new, 1)
        elif re.search(r"util\.return|concat", code):
            one, two = match.group(2, 3)
            new = line.replace(f"{one}, {two}", f"{two}, {one}", 1)
            yield "results", f"{one}, {two} swapped", new
