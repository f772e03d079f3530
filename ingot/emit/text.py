"""Names, types, numbers and signatures in, MLIR text laid out like written MLIR out."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Sequence

from ingot.graph import Instance, TensorType

# (name, type) of the arguments of a function, and of its results.
Formals = list[tuple[str, TensorType | str]]


def symbol(name: str) -> str:
    """Return a manifest's name as an MLIR identifier: `-` and blanks become `_`."""
    return "".join(char if char.isalnum() or char in "._$" else "_" for char in name)


def mlir_type(kind: TensorType | str) -> str:
    """Return the MLIR spelling, `tensor<?x?x384xf32>`: a named dim is dynamic."""
    if isinstance(kind, str):
        return kind
    shape = "".join("?x" if isinstance(dim, str) else f"{dim}x" for dim in kind.shape)
    return f"tensor<{shape}{kind.element}>"


def literal(value: float | int, kind: str) -> str:
    """Return a number as an MLIR literal of type `kind`, without loss.

    Raises: ValueError where a fraction is given for an integer type.
    """
    if not kind.startswith("f"):
        if value != int(value):
            raise ValueError(f"{value} is not a value of type {kind}")
        return f"{int(value)} : {kind}"
    if not math.isfinite(value):
        return f"0x{struct.pack('>f', value).hex().upper()} : {kind}"
    mantissa, mark, exponent = repr(float(value)).partition("e")
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}{mark}{exponent} : {kind}"


def signature(instance: Instance) -> tuple[list[str], list[str]]:
    """Return the MLIR types of an instance: tensors, then scalars; results."""
    arguments = [mlir_type(item.type) for item in instance.arguments]
    arguments += [kind for _, kind in instance.scalars]
    return arguments, [mlir_type(item.type) for item in instance.results]


def declaration(instance: Instance) -> str:
    """Return the declaration that `iree-link` resolves to the instance's module."""
    arguments, results = signature(instance)
    return (
        f"  util.func private @{instance.name}.forward(\n"
        f"      {', '.join(arguments)}\n"
        f"  ) -> {result_list(results)}"
    )


def call(instance: Instance, operands: list[str], results: list[str]) -> list[str]:
    """Return the lines of one call of an instance."""
    kinds, result_kinds = signature(instance)
    return [
        f"{', '.join(results)} = util.call @{instance.name}.forward(",
        f"    {', '.join(operands)}",
        f") : ({', '.join(kinds)}) -> {result_list(result_kinds)}",
    ]


def function(
    name: str,
    formals: Formals,
    results: Formals,
    lines: list[str],
    returned: list[str],
    aliases: Sequence[int | None] = (),
) -> str:
    """Return a public function; an argument a line, its dims as a comment.

    `aliases` has, for each argument, the result that takes over its memory.
    """
    notes = [
        "" if result is None else f" {{iree.abi.output = {result} : index}}"
        for result in aliases or [None] * len(formals)
    ]
    arguments = [
        (f"%{symbol(formal)}: {mlir_type(kind)}{notes[i]}", _dims(kind))
        for i, (formal, kind) in enumerate(formals)
    ]
    kinds = [mlir_type(kind) for _, kind in results]
    named = [(mlir_type(kind), f"{_dims(kind)} {result}") for result, kind in results]
    if len(named) == 1:
        head = [*_listed(arguments), (f"  ) -> {kinds[0]} {{", named[0][1])]
    else:
        head = [*_listed(arguments), ("  ) -> (", ""), *_listed(named), ("  ) {", "")]
    width = max(len(text) for text, _ in head)
    return "\n".join(
        [
            f"  util.func public @{name}(",
            *(f"{x.ljust(width)}  // {note}" if note else x for x, note in head),
            *(f"    {line}".rstrip() for line in lines),
            f"    util.return {', '.join(returned)} : {', '.join(kinds)}",
            "  }",
        ]
    )


def _listed(items: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return lines of a list, with commas between them; each keeps its comment."""
    last = len(items) - 1
    return [
        (f"      {text}{',' if i < last else ''}", note)
        for i, (text, note) in enumerate(items)
    ]


def result_list(kinds: Iterable[str]) -> str:
    """Return result types as they follow an arrow."""
    kinds = list(kinds)
    return kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"


def _dims(kind: TensorType | str) -> str:
    if isinstance(kind, str):
        return "scalar"
    return f"[{', '.join(map(str, kind.shape))}]"
