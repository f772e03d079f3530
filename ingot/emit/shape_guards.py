"""Write the lines with which a function rejects inputs of wrong sizes.

No later code checks a dynamic dim: a sequence longer than the position table would read
past the end of the table, and a mask of another length past the end of the mask. The
compiler may also rely on every assertion that these lines make.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.emit.mlir_text import (
    BUFFER,
    VIEW,
    Formals,
    View,
    mlir_type,
    sizes_of,
    symbol,
    tied,
)
from ingot.model.graph import DynamicDim
from ingot.model.shapes import TensorType


def guard(
    formals: Formals, dynamic: tuple[DynamicDim, ...]
) -> tuple[list[str], dict[str, str]]:
    """Return the lines, and the value that replaces each formal after them.

    A dim is asserted to be in its range where it occurs first, and to have the same
    size at every further occurrence. The value of a view is its buffer.
    """
    ranges = {dim.name: dim for dim in dynamic}
    first: dict[str, str] = {}  # by dim: the value that holds its size
    lines: list[str] = []
    axes = 0
    for formal, kind in formals:
        shape = () if isinstance(kind, str) else _tensor(kind).shape
        axes = max(axes, len(shape))
        for axis, dim in enumerate(shape):
            if isinstance(dim, str) and dim in ranges:
                lines += _dim(formal, kind, axis, ranges[dim], first)
    values = {formal: f"%{symbol(formal)}" for formal, _ in formals}
    lines += _assume([ranges[dim] for dim in first], first)
    for formal, kind in formals:
        if isinstance(kind, View):
            lines += _buffer(values[formal], formal, kind.type)
            values[formal] += ".buffer"
        elif isinstance(kind, TensorType) and sizes_of(kind, first):
            typed = f"{mlir_type(kind)}{sizes_of(kind, first)}"
            lines += tied(f"{values[formal]}.sized", values[formal], typed)
            values[formal] += ".sized"
    if not lines:
        return [], values
    constants = [f"%c{axis} = arith.constant {axis} : index" for axis in range(axes)]
    return ["// The dynamic dims.", *constants, *lines, ""], values


def _tensor(kind: TensorType | View) -> TensorType:
    return kind.type if isinstance(kind, View) else kind


def _dim(
    formal: str,
    kind: TensorType | View | str,
    axis: int,
    dim: DynamicDim,
    first: dict[str, str],
) -> Iterator[str]:
    """Yield the lines that read the size of one axis and assert it."""
    name, value = symbol(dim.name), f"%{symbol(formal)}"
    size, typed = f"{value}.dim_{axis}", mlir_type(kind)
    if isinstance(kind, View):
        yield f"{size} = hal.buffer_view.dim<{value} : {typed}>[{axis}] : index"
    else:
        yield f"{size} = tensor.dim {value}, %c{axis} : {typed}"
    if dim.name in first:
        yield f"{size}.agrees = arith.cmpi eq, {size}, {first[dim.name]} : index"
        yield f'cf.assert {size}.agrees, "{formal}: {dim.name} differs between inputs"'
        return
    first[dim.name] = size
    for edge, predicate, bound in (("min", "uge", dim.min), ("max", "ule", dim.max)):
        words = f"{formal}: {dim.name} must be {dim.min} to {dim.max}"
        yield f"%{name}.{edge} = arith.constant {bound} : index"
        yield f"{size}.{edge} = arith.cmpi {predicate}, {size}, %{name}.{edge} : index"
        yield f'cf.assert {size}.{edge}, "{words}"'


def _assume(dims: list[DynamicDim], first: dict[str, str]) -> Iterator[str]:
    """Yield the lines that tell the compiler the range of each size."""
    for dim in dims:
        yield (
            f"%size.{symbol(dim.name)} = util.assume.int {first[dim.name]}"
            f"<umin = {dim.min}, umax = {dim.max}> : index"
        )


def _buffer(value: str, formal: str, kind: TensorType) -> Iterator[str]:
    """Yield the lines that check a view's type and take its buffer.

    IREE itself checks the type of a tensor.
    """
    sizes = []
    for axis, dim in enumerate(kind.shape):
        if isinstance(dim, str):
            sizes.append(f"%size.{symbol(dim)}")
        else:
            sizes.append(f"{value}.size_{axis}")
            yield f"{sizes[-1]} = arith.constant {dim} : index"
    yield f"{value}.type = hal.element_type<{kind.element}> : i32"
    yield f"{value}.encoding = hal.encoding_type<dense_row_major> : i32"
    yield (
        f'hal.buffer_view.assert<{value} : {VIEW}> message("{formal}")'
        f" shape([{', '.join(sizes)}]) type({value}.type)"
        f" encoding({value}.encoding)"
    )
    yield f"{value}.buffer = hal.buffer_view.buffer<{value} : {VIEW}> : {BUFFER}"
