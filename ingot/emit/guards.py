"""A function's inputs in, the lines that refuse wrong sizes out.

Nothing below looks at a dynamic dim again: a sequence longer than the position table
would read past its end, and a mask of another length past the mask's. What is asserted
here the compiler may then rely on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.emit.text import Formals, mlir_type, symbol
from ingot.graph import DynamicDim, TensorType


def guard(
    formals: Formals, dynamic: tuple[DynamicDim, ...]
) -> tuple[list[str], dict[str, str]]:
    """Return the lines, and the value that stands for each formal behind them.

    A dim is asserted to be in its range where it comes first, and to be the same where
    it comes again.
    """
    tensors = [item for item in formals if isinstance(item[1], TensorType)]
    ranges = {dim.name: dim for dim in dynamic}
    first: dict[str, str] = {}  # dim: the value that holds its size
    lines: list[str] = []
    for formal, kind in tensors:
        assert isinstance(kind, TensorType)
        for axis, dim in enumerate(kind.shape):
            if isinstance(dim, str) and dim in ranges:
                lines += _dim(formal, kind, axis, ranges[dim], first)
    values = {formal: f"%{symbol(formal)}" for formal, _ in formals}
    if not first:
        return [], values
    lines += _assume([ranges[dim] for dim in first], first)
    for formal, kind in tensors:
        assert isinstance(kind, TensorType)
        sizes = [dim for dim in kind.shape if isinstance(dim, str)]
        if sizes and all(dim in first for dim in sizes):
            listed = ", ".join(f"%size.{symbol(dim)}" for dim in sizes)
            lines.append(
                f"{values[formal]}.sized = flow.tensor.tie_shape {values[formal]}"
                f" : {mlir_type(kind)}{{{listed}}}"
            )
            values[formal] += ".sized"
    axes = max(len(kind.shape) for _, kind in tensors if isinstance(kind, TensorType))
    constants = [f"%c{axis} = arith.constant {axis} : index" for axis in range(axes)]
    return ["// The dynamic dims.", *constants, *lines, ""], values


def _dim(
    formal: str, kind: TensorType, axis: int, dim: DynamicDim, first: dict[str, str]
) -> Iterator[str]:
    """Yield the size of one axis and what it must be."""
    name, value = symbol(dim.name), f"%{symbol(formal)}"
    size = f"{value}.dim_{axis}"
    yield f"{size} = tensor.dim {value}, %c{axis} : {mlir_type(kind)}"
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
    """Yield the sizes as the compiler may take them."""
    for dim in dims:
        yield (
            f"%size.{symbol(dim.name)} = util.assume.int {first[dim.name]}"
            f"<umin = {dim.min}, umax = {dim.max}> : index"
        )
