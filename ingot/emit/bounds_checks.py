"""Write the lines that check the indices of a component's call in a sanitizer build.

Components use ids, blocks and positions as indices without checking them. A sanitizer
build checks them and reports those that are out of range. It then continues with the
nearest index in range, because a read may execute before the check that precedes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ingot.emit.mlir_text import mlir_type
from ingot.model.graph import Instance
from ingot.model.shapes import Limit, Product, TensorType


def checked(
    instance: Instance, operands: list[str], where: str, prefix: str
) -> tuple[list[str], list[str]]:
    """Return the lines, and the operands with the checked ones replaced.

    `where` names the call in messages; `prefix` starts the names of values.
    """
    lines: list[str] = []
    found = list(operands)
    for place, argument in enumerate(instance.arguments):
        limit = argument.limit
        if limit is None:
            continue
        value = f"{prefix}.{argument.name}"
        words = [f"{where}: {argument.name} must be in {limit.text}"]
        sizes = dict(instance.dims)
        words += [f"{name} = {sizes[name]}" for name in limit.names if sizes[name]]
        lines += _last(instance, operands, limit, value)
        lines += _check(value, operands[place], argument.type, ", ".join(words))
        lines += _inside(value, operands[place], argument.type)
        found[place] = f"{value}.inside"
    return lines, found


def _last(
    instance: Instance, operands: list[str], limit: Limit, value: str
) -> Iterator[str]:
    """Yield `<value>.last`, the largest number in range, as i32."""
    yield from _size(instance, operands, limit.most, f"{value}.most")
    last = f"{value}.most"
    if limit.less:
        yield from _size(instance, operands, limit.less, f"{value}.less")
        yield f"{value}.rest = arith.subi {last}, {value}.less : index"
        last = f"{value}.rest"
    if not limit.closed:
        yield f"{value}.one = arith.constant 1 : index"
        yield f"{value}.end = arith.subi {last}, {value}.one : index"
        last = f"{value}.end"
    yield f"{value}.last = arith.index_cast {last} : index to i32"
    yield f"{value}.zero = arith.constant 0 : i32"


def _size(
    instance: Instance, operands: list[str], dim: Product, value: str
) -> Iterator[str]:
    """Yield a product of dims as an index."""
    sizes = dict(instance.dims)
    known = [size for name in dim.names if (size := sizes[name]) is not None]
    total = value if len(known) == len(dim.names) else f"{value}.known"
    yield f"{total} = arith.constant {dim.size * prod(known)} : index"
    open_ = [name for name in dim.names if sizes[name] is None]
    for number, name in enumerate(open_, 1):
        place, axis = _where(instance, name)
        factor, kind = f"{value}.{name}", mlir_type(instance.arguments[place].type)
        yield f"{factor}.axis = arith.constant {axis} : index"
        yield f"{factor} = tensor.dim {operands[place]}, {factor}.axis : {kind}"
        made = value if number == len(open_) else f"{value}.{number}"
        yield f"{made} = arith.muli {total}, {factor} : index"
        total = made


def _where(instance: Instance, name: str) -> tuple[int, int]:
    """Return the first argument that has a dynamic dim, and the dim's axis in it."""
    return next(
        (place, axis)
        for place, argument in enumerate(instance.arguments)
        for axis, dim in enumerate(argument.type.shape)
        if dim == name
    )


def _check(value: str, operand: str, kind: TensorType, words: str) -> Iterator[str]:
    """Yield the assertion that every element is in range."""
    init, zero = f"{value}.wrong_init", f"{value}.wrong_zero"
    yield f"{init} = tensor.empty() : tensor<i32>"
    yield f"{zero} = linalg.fill ins({value}.zero : i32) outs({init} : tensor<i32>)"
    yield "    -> tensor<i32>"
    yield from _generic(f"{value}.wrong", operand, kind, (zero, "tensor<i32>"))
    yield "^bb0(%number: i32, %found: i32):"
    yield from _nearest(value)
    yield "  %is_outside = arith.cmpi ne, %nearest, %number : i32"
    yield "  %outside = arith.extui %is_outside : i1 to i32"
    yield "  %next = arith.maxsi %found, %outside : i32"
    yield "  linalg.yield %next : i32"
    yield "} -> tensor<i32>"
    yield f"{value}.found = tensor.extract {value}.wrong[] : tensor<i32>"
    yield f"{value}.right = arith.cmpi eq, {value}.found, {value}.zero : i32"
    yield f'cf.assert {value}.right, "{words}"'


def _inside(value: str, operand: str, kind: TensorType) -> Iterator[str]:
    """Yield `<value>.inside`, the tensor with each element clamped to the range."""
    typed = mlir_type(kind)
    yield from _generic(f"{value}.inside", operand, kind, (operand, typed))
    yield "^bb0(%number: i32, %unused: i32):"
    yield from _nearest(value)
    yield "  linalg.yield %nearest : i32"
    yield f"}} -> {typed}"


def _generic(
    result: str, operand: str, kind: TensorType, out: tuple[str, str]
) -> Iterator[str]:
    """Yield the start of an operation on each element, with as many results or one."""
    axes = ", ".join(f"d{axis}" for axis in range(len(kind.shape)))
    is_one = out[0] != operand
    word = '"reduction"' if is_one else '"parallel"'
    yield f"{result} = linalg.generic {{"
    yield f"  indexing_maps = [affine_map<({axes}) -> ({axes})>,"
    yield f"                   affine_map<({axes}) -> ({'' if is_one else axes})>],"
    yield f"  iterator_types = [{', '.join([word] * len(kind.shape))}]"
    yield f"}} ins({operand} : {mlir_type(kind)}) outs({out[0]} : {out[1]}) {{"


def _nearest(value: str) -> Iterator[str]:
    yield f"  %from_zero = arith.maxsi %number, {value}.zero : i32"
    yield f"  %nearest = arith.minsi %from_zero, {value}.last : i32"
