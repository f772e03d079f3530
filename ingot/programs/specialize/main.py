"""Specialise a dynamic component: bind its dims and write one static module.

The program uses partial evaluation by the compiler's own passes instead of text
templates: it puts a wrapper with static types around the component, inlines it and
folds the constants. The result computes no dims except `batch` and `seq` and contains
no comments, so an edit of a comment rebuilds nothing after this stage.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingot.codec import from_json
from ingot.programs.specialize.spec import SpecializeSpec

# These passes move the casts into the body, fold the dims to constants and remove the
# component's function. Arithmetic on tensors becomes linalg first, because no pattern
# moves a cast through it otherwise. canonicalize runs twice, because cse merges dims
# that its first round found equal.
PIPELINE = (
    "builtin.module(convert-elementwise-to-linalg,inline,canonicalize,cse,canonicalize,"
    "symbol-dce)"
)

# The passes above move casts through every operation of the components except these.
BARRIERS = (
    "iree_tensor_ext.compute_barrier.start",
    "iree_tensor_ext.compute_barrier.end",
)

# The line that declares the stored type of a component's weight, and the lines that
# widen a number of this type.
_WEIGHT = re.compile(r"^!weight = \w+$", re.M)
_WIDENED = re.compile(r"^ *(%\w+) = arith\.extf (%\w+) : !weight to f32$", re.M)


def wrapper(
    specification: SpecializeSpec, arguments: list[str], results: list[str]
) -> str:
    """Return a module whose `@forward` calls `@component` with static types.

    `arguments` and `results` are the types of the component's function: a tensor
    argument takes the next tensor, an `index` the next bound size, anything else the
    next scalar. What the specification has nothing for is a tensor without numbers.

    Raises: ValueError if their number differs from what the specification binds.
    """
    tensors, scalars = specification.tensors, specification.scalars
    named = [
        *((f"%tensor_{number}", kind) for number, kind in enumerate(tensors)),
        *((f"%scalar_{number}", kind) for number, kind in enumerate(scalars)),
    ]
    sources: dict[str, Iterator[Any]] = {
        "tensor": iter(named[: len(tensors)]),
        "scalar": iter(named[len(tensors) :]),
        "index": iter(specification.indices),
    }
    lines, operands = [], []
    for number, kind in enumerate(arguments):
        role = _role(kind)
        if number in specification.absent:
            none = kind.replace("?", "0")
            lines.append(f"%none_{number} = tensor.empty() : {none}")
            lines.append(
                f"%operand_{number} = tensor.cast %none_{number} : {none} to {kind}"
            )
            operands.append(f"%operand_{number}")
            continue
        value = next(sources[role], None)
        if value is None:
            raise ValueError(f"the specification binds no argument {number} ('{kind}')")
        operand = f"%operand_{number}" if role != "scalar" else value[0]
        if role == "index":
            lines.append(f"{operand} = arith.constant {value} : index")
        elif role == "tensor":
            lines.append(f"{operand} = tensor.cast {value[0]} : {value[1]} to {kind}")
        operands.append(operand)
    for role, rest in sources.items():
        if next(rest, None) is not None:
            raise ValueError(f"the specification binds too many {role} values")
    if len(results) != len(specification.results):
        n_expected = len(specification.results)
        raise ValueError(f"expected {n_expected} results, found {len(results)}")
    return _module_text(specification, named, lines, operands, arguments, results)


def with_weight(text: str, weight: str) -> str:
    """Return a component's text in which `!weight` is another type.

    MLIR cannot widen an f32 to f32, so this function removes the lines that do and uses
    the number itself. Every other line keeps its number.

    Raises: ValueError if one name is the widened form of two numbers.
    """
    text, count = _WEIGHT.subn(f"!weight = {weight}", text)
    if count != 1:
        raise ValueError(f"expected one line '!weight = ...', found {count}")
    if weight != "f32":
        return text
    narrow: dict[str, str] = {}
    for wide, number in _WIDENED.findall(text):
        if narrow.setdefault(wide, number) != number:
            raise ValueError(f"'{wide}' is '{narrow[wide]}' and '{number}'")
    text = _WIDENED.sub("", text)
    return re.sub(r"%\w+", lambda name: narrow.get(name[0], name[0]), text)


def main() -> None:
    """Specialise the component of the specification in `argv[1]`."""
    from iree.compiler import ir, passmanager

    specification = from_json(SpecializeSpec, Path(sys.argv[1]).read_bytes())
    text = Path(specification.component).read_text(encoding="utf-8")
    if specification.weight:
        text = with_weight(text, specification.weight)
    with ir.Context():
        try:
            component = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise SystemExit(_at_path(str(error), specification.component)) from None
        function = next(
            item
            for item in component.body.operations
            if item.attributes["sym_name"].value == "forward"
        )
        signature = ir.TypeAttr(function.attributes["function_type"]).value
        wrapped = wrapper(
            specification,
            [str(kind) for kind in signature.inputs],
            [str(kind) for kind in signature.results],
        )
        function.attributes["sym_name"] = ir.StringAttr.get("component")
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        module = ir.Module.parse(wrapped)
        declaration, _ = module.body.operations
        declaration.erase()
        for item in component.body.operations:
            item.detach_from_parent()
            module.body.append(item)
        _generalize_reductions(module)
        passmanager.PassManager.parse(PIPELINE).run(module.operation)
        steps = (_move_casts, _expand_to_known, _drop_empty)
        while any(step(module) for step in steps):
            passmanager.PassManager.parse(PIPELINE).run(module.operation)
        header = f"// Generated by ingot from {specification.component}; do not edit.\n"
        Path(specification.output).write_text(f"{header}{module}\n", encoding="utf-8")


def _at_path(words: str, path: str) -> str:
    """Return the parser's message, with each position as `path:line:column`."""
    text = re.sub(r'^error: "-":(\d+:\d+): ', rf"{path}:\1: error: ", words, flags=re.M)
    return text.removeprefix("Unable to parse module assembly:\n")


def _generalize_reductions(module: Any) -> None:
    """Rewrite each `linalg.reduce` as the equivalent `linalg.generic`.

    The passes only move casts through a `linalg.generic`, and the compiler fuses it
    early.
    """
    from iree.compiler import ir

    found: list[Any] = []

    def visit(operation: Any) -> Any:
        if operation.name == "linalg.reduce":
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for reduction in found:
        value, init = reduction.operands
        rank = ir.RankedTensorType(value.type).rank
        summed = set(reduction.attributes["dimensions"])
        kept = [ir.AffineDimExpr.get(i) for i in range(rank) if i not in summed]
        maps = (ir.AffineMap.get_identity(rank), ir.AffineMap.get(rank, 0, kept))
        kinds = ["reduction" if i in summed else "parallel" for i in range(rank)]
        with ir.InsertionPoint(reduction), reduction.location:
            generic = ir.Operation.create(
                "linalg.generic",
                results=[init.type],
                operands=[value, init],
                attributes={
                    "indexing_maps": ir.ArrayAttr.get(
                        [ir.AffineMapAttr.get(item) for item in maps]
                    ),
                    "iterator_types": ir.ArrayAttr.get(
                        [
                            ir.Attribute.parse(f"#linalg.iterator_type<{kind}>")
                            for kind in kinds
                        ]
                    ),
                    "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 1]),
                },
                regions=1,
            )
        reduction.regions[0].blocks[0].append_to(generic.regions[0])
        reduction.results[0].replace_all_uses_with(generic.results[0])
        reduction.erase()


def _move_casts(module: Any) -> bool:
    """Move casts from before barriers to after them; return whether there was one."""
    from iree.compiler import ir

    found: list[Any] = []

    def visit(operation: Any) -> Any:
        owner: Any = operation.operands[0].owner if operation.name in BARRIERS else 0
        if _is(owner, "tensor.cast"):
            known, loose = owner.operands[0].type, operation.operands[0].type
            if _dynamic_axes(known) < _dynamic_axes(loose):
                found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for barrier in found:
        value = barrier.operands[0].owner.operands[0]
        loose = barrier.operands[0].type
        # The operands after the tensor: sizes of its dynamic dims, in order.
        sizes = list(barrier.operands)[1:]
        given = dict(zip(sorted(_dynamic_axes(loose)), sizes, strict=True))
        kept = [given[axis] for axis in sorted(_dynamic_axes(value.type))]
        with ir.InsertionPoint(barrier), barrier.location:
            static = ir.Operation.create(
                barrier.name, results=[value.type], operands=[value, *kept]
            )
            cast = ir.Operation.create(
                "tensor.cast", results=[loose], operands=[static.result]
            )
        barrier.results[0].replace_all_uses_with(cast.result)
        barrier.erase()
    return bool(found)


def _is(owner: Any, name: str) -> bool:
    from iree.compiler import ir

    # A block owns the arguments of a function.
    return isinstance(owner, ir.OpView | ir.Operation) and owner.operation.name == name


def _expand_to_known(module: Any) -> bool:
    """Make `expand_shape` static where its result is cast; return whether any was."""
    from iree.compiler import ir

    found: list[Any] = []

    def visit(operation: Any) -> Any:
        owner: Any = operation.operands[0].owner if _is(operation, "tensor.cast") else 0
        if _is(owner, "tensor.expand_shape"):
            known, loose = operation.results[0].type, operation.operands[0].type
            if _dynamic_axes(known) < _dynamic_axes(loose):
                found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for cast in found:
        expansion, known = cast.operands[0].owner, cast.results[0].type
        given = zip(
            sorted(_dynamic_axes(expansion.results[0].type)),
            list(expansion.operands)[1:],
            strict=True,
        )
        kept = [size for axis, size in given if axis in _dynamic_axes(known)]
        shape = ir.RankedTensorType(known).shape
        with ir.InsertionPoint(cast), cast.location:
            static = ir.Operation.create(
                "tensor.expand_shape",
                results=[known],
                operands=[expansion.operands[0], *kept],
                attributes={
                    "reassociation": expansion.attributes["reassociation"],
                    "static_output_shape": ir.DenseI64ArrayAttr.get(shape),
                },
            )
        cast.results[0].replace_all_uses_with(static.result)
        cast.erase()
    return bool(found)


def _drop_empty(module: Any) -> bool:
    """Drop insertions of no numbers; return whether there was one.

    They are what is left of an optional argument that is left out.
    """
    from iree.compiler import ir

    found: list[Any] = []

    def visit(operation: Any) -> Any:
        is_insertion = operation.name == "tensor.insert_slice"
        if is_insertion and 0 in ir.RankedTensorType(operation.operands[0].type).shape:
            found.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    for insertion in found:
        insertion.results[0].replace_all_uses_with(insertion.operands[1])
        insertion.erase()
    return bool(found)


def _dynamic_axes(kind: Any) -> set[int]:
    from iree.compiler import ir

    shape = ir.RankedTensorType(kind)
    return {axis for axis in range(shape.rank) if shape.is_dynamic_dim(axis)}


def _module_text(
    specification: SpecializeSpec,
    named: list[tuple[str, str]],
    lines: list[str],
    operands: list[str],
    arguments: list[str],
    results: list[str],
) -> str:
    static = specification.results
    numbers = range(len(results))
    called = ", ".join(f"%result_{number}" for number in numbers)
    returned = ", ".join(f"%static_{number}" for number in numbers)
    signature = f"({', '.join(arguments)}) -> ({', '.join(results)})"
    lines = [
        *lines,
        f"{called} = util.call @component({', '.join(operands)}) : {signature}",
        *(
            f"%static_{n} = tensor.cast %result_{n} : {results[n]} to {static[n]}"
            for n in numbers
        ),
        f"util.return {returned} : {', '.join(static)}",
    ]
    formal = ", ".join(f"{name}: {kind}" for name, kind in named)
    body = "\n    ".join(lines)
    return (
        f"module @{specification.name} {{\n"
        f"  util.func private @component{signature}\n"
        f"  util.func public @forward({formal}) -> ({', '.join(static)}) {{\n"
        f"    {body}\n  }}\n}}\n"
    )


def _role(kind: str) -> str:
    if kind == "index":
        return "index"
    return "tensor" if kind.startswith("tensor<") else "scalar"


if __name__ == "__main__":
    # The compiler's bindings do not need NumPy, and start twice as fast without it.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    main()
