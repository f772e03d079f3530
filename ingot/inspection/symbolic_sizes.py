"""Compute a value of a compiled module for given shapes of the inputs.

Each call computes the sizes of its buffers from the dims of its inputs. Given the dims,
this module repeats that arithmetic.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Shapes = tuple[tuple[int, ...], ...]
"""The shape of each argument of a function."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known about a function's arguments."""

    shapes: Shapes = ()
    # By position: the numbers that a call passes to a block's function.
    numbers: Mapping[int, int] = field(default_factory=dict)


_OPERATIONS: dict[str, Callable[..., int]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.divui": operator.floordiv,
    "arith.remui": operator.mod,
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.maxui": max,
    "arith.minui": min,
    "arith.index_cast": int,
    "arith.index_castui": int,
    "arith.extui": int,
    "arith.select": lambda which, a, b: a if which else b,
    "util.align": lambda value, to: -(-value // to) * to,
    "util.assume.int": int,
    "util.optimization_barrier": int,
}

_COMPARISONS: dict[int, Callable[[int, int], bool]] = {
    # MLIR's predicate numbers; unsigned ones too, because no size is negative.
    0: operator.eq,
    1: operator.ne,
    2: operator.lt,
    3: operator.le,
    4: operator.gt,
    5: operator.ge,
    6: operator.lt,
    7: operator.le,
    8: operator.gt,
    9: operator.ge,
}


def number(value: Any, known: Known) -> int | None:
    """Return the value, or None if it depends on something unknown."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block):
        return known.numbers.get(ir.BlockArgument(value).arg_number)
    name, attributes = owner.name, owner.attributes
    if name == "arith.constant":
        return int(ir.IntegerAttr(attributes["value"]).value)
    if name == "hal.buffer_view.dim":
        axis = int(ir.IntegerAttr(attributes["index"]).value)
        place = ir.BlockArgument(owner.operands[0]).arg_number
        return known.shapes[place][axis] if place < len(known.shapes) else None
    operands = list(owner.operands)
    if name == "util.assume.int":
        # With as many results as operands, each result is its operand.
        results = [result == value for result in owner.results]
        operands = [operands[results.index(True)]]
    found = [number(operand, known) for operand in operands]
    if None in found:
        return None
    if name == "arith.cmpi":
        predicate = int(ir.IntegerAttr(attributes["predicate"]).value)
        return int(_COMPARISONS[predicate](*found))  # type: ignore[arg-type]
    operation = _OPERATIONS.get(name)
    return None if operation is None else operation(*found)
