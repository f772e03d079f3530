"""Read the compiler's output for one phase, with the compiler's own parser."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ingot.inspection.module_content import (
    Buffer,
    Content,
    Function,
    Section,
    counted,
    peak_bytes,
)
from ingot.inspection.outline import BITS
from ingot.inspection.symbolic_sizes import Known, Shapes, number

_TENSOR = re.compile(r"(?:tensor|vector)<((?:[0-9]+x)*)([a-z]+[0-9]+)>")
_PARAMETER = re.compile(r'#flow\.parameter\.named<(?:"[^"]*"::)?"([^"]*)">')
# The start of the text of a constant that consists of parts.
_COMPOSITE = re.compile(r"#util\.composite<([0-9]+)xi8")
_RESOURCE = re.compile(r"!stream\.resource<(\w+)>")
_BITS = BITS | {"i64": 64, "f64": 64}
# Operations that have a body for each element.
_BODIES = ("linalg.", "iree_linalg_ext.", "tensor.")


def read(path: Path, phase: str, shapes: Mapping[str, Shapes]) -> Content:
    """Return the content of the file that a phase task wrote.

    `shapes` contains, by function, the shapes of the inputs for which buffers are
    measured.
    """
    from iree.compiler import ir

    with ir.Context():
        module = ir.Module.parseFile(str(path))
        return _READERS[phase](module, shapes)


def _input(module: Any, shapes: Mapping[str, Shapes]) -> Content:
    """Return the functions of the model and its components: linalg on tensors."""
    parameters = []
    for item in _walk(module):
        if item.name == "util.global" and "initial_value" in item.attributes:
            value = str(item.attributes["initial_value"])
            if found := _PARAMETER.match(value):
                kind = str(item.attributes["type"])
                parameters.append((found[1], _tensor_bytes(kind)))
    functions = tuple(
        Function(_symbol(item), counted(_operations(item)))
        for item in _walk(module)
        if item.name == "util.func"
    )
    sections = (
        Section("parameters", tuple(parameters)),
        Section("constants", _constants(module)),
    )
    return Content(functions, sections)


def _stream(module: Any, shapes: Mapping[str, Shapes]) -> Content:
    """Return buffers and their lifetimes: what a call allocates, starts and frees."""
    functions = []
    parameters: list[tuple[str, int]] = []
    given = _given(module, shapes)
    for item in _walk(module):
        if item.name not in ("util.func", "util.initializer"):
            continue
        name = _symbol(item) if item.name == "util.func" else "initializer"
        known = given.get(name, Known())
        inner = list(_walk(item))
        buffers = tuple(b for part in inner for b in _buffers(part, known))
        functions.append(
            Function(
                name,
                counted([word for word in _operations(item) if _tells(word)]),
                counted([entry for part in inner for entry in _dispatched(part)]),
                buffers,
                peak_bytes(buffers),
            )
        )
        parameters += [size for part in inner for size in _loaded(part)]
    sections = (
        Section("parameters", tuple(parameters)),
        Section("constants", _constants(module)),
    )
    return Content(tuple(functions), sections)


def _vm(module: Any, shapes: Mapping[str, Shapes]) -> Content:
    """Return the functions of the virtual machine, and what they start."""
    texts: dict[str, str] = {}
    code: list[tuple[str, int]] = []
    constants: list[tuple[str, int]] = []
    for item in _walk(module):
        if item.name == "vm.rodata":
            size = _rodata_bytes(item.attributes["value"])
            texts[_symbol(item)] = str(item.attributes["value"]).strip('"')
            is_code = "mime_type" in item.attributes
            (code if is_code else constants).append((_symbol(item), size))
    functions = tuple(
        Function(
            _symbol(item),
            counted(_operations(item)),
            counted([n for part in _walk(item) for n in _started(part, texts)]),
        )
        for item in _walk(module)
        if item.name == "vm.func"
    )
    sections = (
        Section("constants", tuple(constants)),
        Section("code", tuple(code)),
    )
    return Content(functions, sections)


_READERS: dict[str, Callable[[Any, Mapping[str, Shapes]], Content]] = {
    "input": _input,
    "stream": _stream,
    "vm": _vm,
}


def _walk(module: Any) -> Iterator[Any]:
    """Yield every operation below one, in the order of the text."""
    operation = getattr(module, "operation", module)
    for region in operation.regions:
        for block in region:
            for item in block:
                yield item.operation
                yield from _walk(item)


def _symbol(item: Any) -> str:
    from iree.compiler import ir

    return str(ir.StringAttr(item.attributes["sym_name"]).value)


def _operations(function: Any) -> list[str]:
    """Return the names of a function's operations; a call counts as its callee."""
    return [
        f"{item.name} {str(item.attributes['callee']).lstrip('@')}"
        if "callee" in item.attributes
        else item.name
        for item in _walk(function)
        # The body of a linalg operation does not count as further operations.
        if not item.parent.name.startswith(_BODIES)
    ]


def _given(module: Any, shapes: Mapping[str, Shapes]) -> dict[str, Known]:
    """Return what is known about each function's arguments, by function.

    Entry points have shapes; the functions that they call receive the numbers that they
    pass.
    """
    given = {name: Known(found) for name, found in shapes.items()}
    for item in _walk(module):
        if item.name != "util.func" or _symbol(item) not in shapes:
            continue
        known = given[_symbol(item)]
        for part in _walk(item):
            if part.name != "util.call":
                continue
            passed = [number(operand, known) for operand in part.operands]
            numbers = {n: size for n, size in enumerate(passed) if size is not None}
            callee = str(part.attributes["callee"]).removeprefix("@")
            given.setdefault(callee.strip('"'), Known(numbers=numbers))
    return given


def _tells(name: str) -> bool:
    """Return whether an operation of the stream level concerns memory or work."""
    wanted = ("stream.cmd.", "stream.resource.", "stream.tensor.", "util.call ")
    return name.startswith(wanted)


def _dispatched(item: Any) -> list[str]:
    """Return the dispatch that a command starts, without its executable."""
    if item.name != "stream.cmd.dispatch":
        return []
    return [str(item.attributes["entry_points"]).strip("[]").rpartition("::@")[2]]


def _buffers(item: Any, known: Known) -> Iterator[Buffer]:
    """Yield what an operation allocates, takes over, returns or frees."""
    kind = item.name.removeprefix("stream.")
    if kind == "resource.alloca":
        yield Buffer(
            f"alloca {_lifetime(item.results[0])}", number(item.operands[0], known)
        )
    elif kind == "resource.dealloca":
        value, size, *_ = item.operands
        yield Buffer(f"dealloca {_lifetime(value)}", number(size, known))
    elif kind in ("tensor.import", "tensor.export"):
        value = item.results[0] if kind == "tensor.import" else item.operands[0]
        # The operands are the value, the dynamic dims of its type, and its size.
        size = number(list(item.operands)[-1], known)
        yield Buffer(f"{kind.removeprefix('tensor.')} {_lifetime(value)}", size)


def _lifetime(value: Any) -> str:
    found = _RESOURCE.match(str(value.type))
    return found[1] if found else str(value.type)


def _loaded(item: Any) -> Iterator[tuple[str, int]]:
    """Yield the name and size in bytes of each parameter that an operation loads."""
    if item.name != "stream.cmd.parameter.load":
        return
    # The operands are the scope, and a key, an offset and a size per result.
    scope, count, *_ = map(int, item.attributes["operandSegmentSizes"])
    operands = list(item.operands)[scope:]
    for key, size in zip(operands[:count], operands[2 * count :], strict=False):
        yield _text(key), number(size, Known()) or 0


def _constants(module: Any) -> tuple[tuple[str, int], ...]:
    """Return the constant tensors by type, including those in dispatches."""
    kinds = [
        str(item.results[0].type)
        for item in _walk(module)
        if item.name == "arith.constant"
    ]
    return tuple((k, _tensor_bytes(k)) for k in kinds if k.startswith("tensor<"))


def _text(value: Any) -> str:
    """Return the text of a constant buffer, or "" if it is not text."""
    from iree.compiler import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or "value" not in owner.attributes:
        return ""
    return str(owner.attributes["value"]).strip('"')


def _started(item: Any, texts: dict[str, str]) -> list[str]:
    """Return the dispatch that a call of the virtual machine starts.

    The function's number was looked up by a name among the constants.
    """
    from iree.compiler import ir

    if str(item.attributes.get("callee", "")) != "@hal.command_buffer.dispatch":
        return []
    owner = item.operands[2].owner
    if isinstance(owner, ir.Block) or "callee" not in owner.attributes:
        return ["unnamed"]
    name = owner.operands[1].owner
    if isinstance(name, ir.Block) or "rodata" not in name.attributes:
        return ["unnamed"]
    return [texts[str(name.attributes["rodata"]).lstrip("@")]]


def _rodata_bytes(value: Any) -> int:
    from iree.compiler import ir

    if isinstance(value, ir.StringAttr):
        return len(value.value.encode())
    if isinstance(value, ir.DenseElementsAttr):
        return _tensor_bytes(str(value.type))
    found = _COMPOSITE.match(str(value))
    return int(found[1]) if found else 0


def _tensor_bytes(kind: str) -> int:
    """Return the size in bytes of a static tensor or vector type."""
    found = _TENSOR.match(kind)
    if not found:
        return 0
    sizes = [int(size) for size in found[1].split("x") if size]
    return math.prod(sizes) * _BITS.get(found[2], 8) // 8
