"""Write names, types, numbers and signatures as MLIR text.

The text is laid out like MLIR that a person writes, because people read it when
something goes wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache

from ingot.model.graph import DynamicDim, Instance
from ingot.model.shapes import TensorType

# A tensor in the caller's memory: the type of the argument, and the type inside.
VIEW = "!hal.buffer_view"
BUFFER = "!hal.buffer"


@dataclass(frozen=True, slots=True)
class View:
    """An argument or result whose memory the caller owns."""

    type: TensorType


# (name, type) of each argument or result of a function.
Formals = list[tuple[str, TensorType | View | str]]


@cache
def symbol(name: str) -> str:
    """Return a manifest's name as an MLIR identifier: `-` and blanks become `_`."""
    return "".join(char if char.isalnum() or char in "._$" else "_" for char in name)


@cache
def mlir_type(kind: TensorType | View | str) -> str:
    """Return the MLIR spelling, `tensor<?x?x384xf32>`; a named dim is dynamic."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, View):
        return VIEW
    shape = "".join("?x" if isinstance(dim, str) else f"{dim}x" for dim in kind.shape)
    return f"tensor<{shape}{kind.element}>"


def literal(value: float | int, kind: str) -> str:
    """Return a number as an MLIR literal of type `kind`, without loss.

    Raises: ValueError if the type is an integer and the number is not.
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
    """Return the MLIR types of an instance's tensors and scalars, and its results."""
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
) -> str:
    """Return a public function with one argument per line, its dims as a comment."""
    arguments = [
        (f"%{symbol(formal)}: {mlir_type(kind)}", _dims(kind))
        for formal, kind in formals
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
    """Return the lines of a list, separated by commas; each keeps its comment."""
    last = len(items) - 1
    return [
        (f"      {text}{',' if i < last else ''}", note)
        for i, (text, note) in enumerate(items)
    ]


def result_list(kinds: Iterable[str]) -> str:
    """Return the result types as they follow an arrow."""
    kinds = list(kinds)
    return kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})"


def dynamic_dims(
    kinds: Iterable[TensorType], dynamic: Iterable[DynamicDim]
) -> tuple[str, ...]:
    """Return the dynamic dims that the types have, in the graph's order."""
    found = {dim for kind in kinds for dim in kind.shape}
    return tuple(dim.name for dim in dynamic if dim.name in found)


def sizes_of(kind: TensorType, sizes: Container[str]) -> str:
    """Return the sizes of a type's dynamic dims, `{%size.batch}`, or ""."""
    named = [dim for dim in kind.shape if isinstance(dim, str) and dim in sizes]
    listed = ", ".join(f"%size.{symbol(dim)}" for dim in named)
    return f"{{{listed}}}" if named else ""


def tied(result: str, value: str, typed: str) -> tuple[str, str]:
    """Return the lines that attach sizes to the dynamic dims of a value."""
    return f"{result} = flow.tensor.tie_shape {value}", f"    : {typed}"


def _dims(kind: TensorType | View | str) -> str:
    if isinstance(kind, View):
        kind = kind.type
    if isinstance(kind, str):
        return "scalar"
    return f"[{', '.join(map(str, kind.shape))}]"
