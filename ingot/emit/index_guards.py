"""Write the lines with which an entry point rejects indices that are out of range.

Components use ids, positions and blocks as indices without checking them: a token id of
n_vocab would be read from behind the embedding. The lines come before everything that
reads an input, and end in branches, which no later operation is moved across. A call
that they reject has changed nothing.

Where the host can read the inputs, it compares them itself, which adds no dispatch.
Elsewhere one submission of small dispatches compares them, and the host waits for it:
the device is idle then anyway, because a call begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ingot.emit.mlir_text import BUFFER, VIEW, mlir_type, sizes_of, symbol
from ingot.model.graph import Port
from ingot.model.shapes import Product

_ZERO, _ONE, _BYTES = "%index.zero", "%index.one", "%index.bytes"


def guard_indices(
    ports: Iterable[Port], values: dict[str, str], host_inputs: bool
) -> tuple[list[str], dict[str, str]]:
    """Return the lines, and the value that replaces each input after them.

    `values` has the names of the inputs after the guards of their sizes. With
    `host_inputs`, those with limits are buffers, and become tensors.
    """
    limited = [port for port in ports if port.limits]
    if not limited:
        return [], values
    lines = ["// The indices that the caller passes."]
    for name, number in ((_ZERO, 0), (_ONE, 1), (_BYTES, 4)):
        lines.append(f"{name} = arith.constant {number} : index")
    for port in limited:
        lines += _last(port)
    if not host_inputs:
        return [*lines, *_on_device(limited, values), ""], values
    tensors = dict(values)
    for port in limited:
        lines += _on_host(port, values[port.name])
        tensors[port.name] = f"%{symbol(port.name)}.tensor"
        lines += _tensor(port, tensors[port.name])
    return [*lines, ""], tensors


def _words(port: Port) -> str:
    ranges = " and ".join(limit.text for limit in port.limits)
    return f'"{port.name} must be in {ranges}"'


def _last(port: Port) -> Iterator[str]:
    """Yield `<value>.last`, the largest number in all ranges of an input."""
    value = f"%{symbol(port.name)}.last"
    for number, limit in enumerate(port.limits):
        last = f"{value}.{number}" if len(port.limits) > 1 else value
        less = limit.less or Product.of(0)
        yield from _size(limit.most, f"{last}.most")
        yield from _size(less, f"{last}.less")
        yield f"{last}.room = arith.subi {last}.most, {last}.less : index"
        yield f"{last}.end = arith.constant {0 if limit.closed else 1} : index"
        yield f"{last} = arith.subi {last}.room, {last}.end : index"
    found = f"{value}.0"
    for number in range(1, len(port.limits)):
        nearest = value if number == len(port.limits) - 1 else f"{value}.to_{number}"
        yield f"{nearest} = arith.minsi {found}, {value}.{number} : index"
        found = nearest


def _size(dim: Product, value: str) -> Iterator[str]:
    """Yield a product of a number and dynamic dims."""
    total = value if not dim.names else f"{value}.0"
    yield f"{total} = arith.constant {dim.size} : index"
    for number, name in enumerate(dim.names, 1):
        made = value if number == len(dim.names) else f"{value}.{number}"
        yield f"{made} = arith.muli {total}, %size.{symbol(name)} : index"
        total = made


def _on_host(port: Port, buffer: str) -> Iterator[str]:
    """Yield the loop in which the host compares the numbers of a buffer."""
    value = f"%{symbol(port.name)}"
    dims = [Product.of(d) if isinstance(d, int) else d for d in port.type.shape]
    count = Product.of(1)
    for dim in dims:
        count = count.times(Product.of(1, dim) if isinstance(dim, str) else dim)
    yield from _size(count, f"{value}.count")
    yield f"scf.for %at = {_ZERO} to {value}.count step {_ONE} {{"
    yield f"  %offset = arith.muli %at, {_BYTES} : index"
    yield f"  %number = hal.buffer.load<{buffer} : {BUFFER}>[%offset] : i32"
    yield "  %index = arith.index_cast %number : i32 to index"
    yield f"  %is_from_zero = arith.cmpi sge, %index, {_ZERO} : index"
    yield f"  %is_to_last = arith.cmpi sle, %index, {value}.last : index"
    yield "  %is_inside = arith.andi %is_from_zero, %is_to_last : i1"
    yield f"  cf.assert %is_inside, {_words(port)}"
    yield "}"


def _tensor(port: Port, tensor: str) -> Iterator[str]:
    """Yield the tensor of a buffer that was compared."""
    dims = [dim for dim in port.type.shape if isinstance(dim, str)]
    typed = f"{mlir_type(port.type)}{sizes_of(port.type, dims)}"
    view = f"%{symbol(port.name)}"
    yield f'{tensor} = hal.tensor.import {view} "{port.name}" : {VIEW} -> {typed}'


def _on_device(ports: list[Port], values: dict[str, str]) -> Iterator[str]:
    """Yield the reductions, the wait for their results, and what the host asserts."""
    yield "%index.right = arith.constant 0 : i32"
    yield "%index.init = tensor.empty() : tensor<i32>"
    yield "%index.none = linalg.fill ins(%index.right : i32)"
    yield "    outs(%index.init : tensor<i32>) -> tensor<i32>"
    found = []
    for port in ports:
        found.append(f"%{symbol(port.name)}.outside")
        yield from _reduction(port, values[port.name], f"{found[-1]}.one")
    for outside in found:
        yield f"{outside} = tensor.extract {outside}.one[] : tensor<i32>"
    total = "%index.right"
    for outside in found:
        yield f"{outside}.all = arith.ori {total}, {outside} : i32"
        total = f"{outside}.all"
    yield f"%index.is_wrong = arith.cmpi ne, {total}, %index.right : i32"
    yield "scf.if %index.is_wrong {"
    for port, outside in zip(ports, found, strict=True):
        yield f"  {outside}.none = arith.cmpi eq, {outside}, %index.right : i32"
        yield f"  cf.assert {outside}.none, {_words(port)}"
    yield "}"


def _reduction(port: Port, operand: str, result: str) -> Iterator[str]:
    """Yield the operation that gives 1 if a number is out of range, else 0."""
    value = f"%{symbol(port.name)}"
    axes = ", ".join(f"d{axis}" for axis in range(len(port.type.shape)))
    kinds = ", ".join(['"reduction"'] * len(port.type.shape))
    yield f"{value}.last_i32 = arith.index_cast {value}.last : index to i32"
    yield f"{result} = linalg.generic {{"
    yield f"  indexing_maps = [affine_map<({axes}) -> ({axes})>,"
    yield f"                   affine_map<({axes}) -> ()>],"
    yield f"  iterator_types = [{kinds}]"
    yield f"}} ins({operand} : {mlir_type(port.type)})"
    yield "  outs(%index.none : tensor<i32>) {"
    yield "^bb0(%number: i32, %found: i32):"
    yield "  %is_negative = arith.cmpi slt, %number, %index.right : i32"
    yield f"  %is_behind = arith.cmpi sgt, %number, {value}.last_i32 : i32"
    yield "  %is_outside = arith.ori %is_negative, %is_behind : i1"
    yield "  %outside = arith.extui %is_outside : i1 to i32"
    yield "  %next = arith.maxsi %found, %outside : i32"
    yield "  linalg.yield %next : i32"
    yield "} -> tensor<i32>"
