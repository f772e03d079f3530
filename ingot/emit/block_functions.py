"""Write one function for all blocks that have the same structure.

The layers of a model differ in their parameters and in integers, such as the layer's
number. These become arguments, so the compiler sees each kind of layer once, however
many layers there are. A layer that takes an input of the entry point, or produces one
of its outputs, gets a function of its own.

A value whose memory the caller owns, such as a cache, is passed as a buffer. The
function reads and writes it in place and does not return it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ingot.emit.aliasing import Memory, Step, memory_of
from ingot.emit.mlir_text import (
    BUFFER,
    call,
    dynamic_dims,
    literal,
    mlir_type,
    result_list,
    sizes_of,
    symbol,
    tied,
)
from ingot.errors import IngotError
from ingot.model.graph import (
    PARAMETER,
    Block,
    Call,
    DynamicDim,
    EntryPoint,
    Graph,
    held_values,
)
from ingot.model.shapes import TensorType

# Every target has one device, and the compiler gives it this name. A function that is
# not inlined must name its device; otherwise all its arguments are copied there.
DEVICE = "#hal.device.promise<@__device_0>"

Argument = tuple[str, str]
"""(name, MLIR type)."""


@dataclass(slots=True)
class Function:
    """The function that all blocks of one structure call."""

    name: str
    sizes: tuple[str, ...]  # the dynamic dims, which come first
    arguments: tuple[Argument, ...]
    results: tuple[tuple[str, TensorType], ...]  # values of the block that are not held
    lines: tuple[str, ...]
    returned: tuple[str, ...]
    apart: bool = False  # whether it may be compiled separately from its callers
    n_calls: int = 0


@dataclass(slots=True)
class Blocks:
    """The functions of one module's blocks."""

    graph: Graph
    functions: dict[object, Function] = field(default_factory=dict)
    kinds: dict[str, str] = field(init=False)  # the parameters' types

    def __post_init__(self) -> None:
        """Look up the types of the parameters once."""
        self.kinds = {x.name: mlir_type(x.type) for x in self.graph.parameters}

    def memory(self, entry: EntryPoint) -> Memory:
        """Return where the values of an entry point live."""
        return self.graph.once(memory_of, entry)

    def function(self, entry: EntryPoint, step: Step) -> Function:
        """Return the function of a block; the inputs that it holds are buffers.

        Raises: IngotError if the block writes a buffer without reading it, because
            nothing would wait for the write.
        """
        block, held, memory = step.block, frozenset(step.held), self.memory(entry)
        apart = memory.is_chain
        form = (apart, memory.own[block.name], _form(self.graph, block, held))
        if form not in self.functions:
            name = self._name(entry, block)
            self.functions[form] = _function(self, block, held, name)
            self.functions[form].apart = apart
        function = self.functions[form]
        function.n_calls += 1
        return function

    def text(self) -> Iterator[str]:
        """Yield the text of each function."""
        for function in self.functions.values():
            yield _text(function)

    def _name(self, entry: EntryPoint, block: Block) -> str:
        """Return `<entry point>.<kind>`, with a number if the name is taken."""
        stem = f"{entry.name}.{symbol(block.kind.partition('.')[0])}"
        taken = {function.name for function in self.functions.values()}
        names = (stem, *(f"{stem}.{number}" for number in range(2, len(taken) + 2)))
        return next(name for name in names if name not in taken)


def integers_of(graph: Graph, block: Block) -> tuple[tuple[str, str, int], ...]:
    """Return the integer arguments of a block's calls: name, type, value."""
    return tuple(
        (f"{symbol(use.name)}.{symbol(name)}", kind, int(value))
        for use in block.calls
        for value, (name, kind) in _scalars(graph, use)
        if not kind.startswith("f")
    )


def _scalars(graph: Graph, use: Call) -> Iterable[tuple[float | int, tuple[str, str]]]:
    if not use.scalars:
        return ()
    return zip(use.scalars, graph.instance(use.instance).scalars, strict=True)


def _form(graph: Graph, block: Block, held: frozenset[str]) -> object:
    """Return a value that is equal for blocks that can share a function.

    The types of the inputs and the instances decide the types of all other values.
    """
    places = {PARAMETER + x: place for place, x in enumerate(block.parameters)}
    types = dict(block.types)
    return (
        tuple((formal, formal in held, types[formal]) for formal, _ in block.inputs),
        tuple(
            (
                use.name,
                use.instance,
                tuple(places.get(x, x) for x in use.operands),
                tuple(v for v, (_, kind) in _scalars(graph, use) if kind[0] == "f"),
                use.results,
            )
            for use in block.calls
        ),
        tuple(inner for _, inner in block.outputs),
    )


def _function(
    blocks: Blocks, block: Block, held: frozenset[str], name: str
) -> Function:
    graph, types = blocks.graph, dict(block.types)
    inputs = [(formal, types[formal]) for formal, _ in block.inputs]
    sizes = dynamic_dims((kind for _, kind in inputs), graph.dynamic)
    arguments: list[Argument] = [(f"%in.{symbol(dim)}", "index") for dim in sizes]
    lines = [*_assume(sizes, graph.dynamic)]
    local: dict[str, str] = {}
    for formal, kind in inputs:
        value, typed = f"%{symbol(formal)}", mlir_type(kind)
        arguments.append((value, BUFFER if formal in held else typed))
        typed += sizes_of(kind, sizes)
        local[formal] = value
        if formal in held:
            local[formal] += ".sized"
            source = f"hal.tensor.import {value} : {BUFFER} -> {typed}"
            lines.append(f"{local[formal]} = {source}")
        elif typed.endswith("}"):
            local[formal] += ".sized"
            lines += tied(local[formal], value, typed)
    parameters = _parameters(graph, block)
    arguments += parameters.values()
    local |= {PARAMETER + key: value for key, (value, _) in parameters.items()}
    arguments += [(f"%{key}", kind) for key, kind, _ in integers_of(graph, block)]
    owners, _ = held_values(block, {formal: formal for formal in held})
    lines += _calls(blocks, block, local, owners, sizes)
    results = tuple(
        (inner, types[inner])
        for inner in dict.fromkeys(inner for _, inner in block.outputs)
        if inner not in owners
    )
    return Function(
        name=name,
        sizes=sizes,
        arguments=tuple(arguments),
        results=results,
        lines=tuple(lines),
        returned=tuple(local[inner] for inner, _ in results),
    )


def _parameters(graph: Graph, block: Block) -> dict[str, Argument]:
    """Return the argument for each parameter, named after its first use."""
    found: dict[str, Argument] = {}
    for use in block.calls:
        formals = graph.instance(use.instance).arguments
        for operand, formal in zip(use.operands, formals, strict=True):
            parameter = operand.removeprefix(PARAMETER)
            if parameter != operand and parameter not in found:
                value = f"%{symbol(use.name)}.{symbol(formal.name)}"
                found[parameter] = (value, mlir_type(formal.type))
    return found


def _assume(sizes: Iterable[str], dynamic: Iterable[DynamicDim]) -> Iterator[str]:
    ranges = {dim.name: dim for dim in dynamic}
    for dim in sizes:
        yield (
            f"%size.{symbol(dim)} = util.assume.int %in.{symbol(dim)}"
            f"<umin = {ranges[dim].min}, umax = {ranges[dim].max}> : index"
        )


def _calls(
    blocks: Blocks,
    block: Block,
    local: dict[str, str],
    owners: Mapping[str, str],
    sizes: tuple[str, ...],
) -> Iterator[str]:
    """Yield the calls, and add their results to `local`."""
    graph, types = blocks.graph, dict(block.types)
    read = {operand for use in block.calls for operand in use.operands}
    for use in block.calls:
        operands = [local[operand] for operand in use.operands]
        for value, (name, kind) in _scalars(graph, use):
            operands.append(f"%{symbol(use.name)}.{symbol(name)}")
            if kind.startswith("f"):
                yield f"{operands[-1]} = arith.constant {literal(value, kind)}"
        results = [f"%{symbol(result)}" for result in use.results]
        instance = graph.instance(use.instance)
        local |= dict(zip(use.results, results, strict=True))
        yield from call(instance, operands, results)
        for result in use.results:
            if result not in owners:
                continue
            if result not in read:
                raise IngotError(
                    f"{graph.model}: block {block.name}: {result} updates"
                    f" {owners[result]}, but nothing in the block reads it",
                    "move a node that reads it into the same block",
                )
            new, type_ = local[result], types[result]
            local[result] = f"{new}.kept"
            yield (
                f"{new}.kept = hal.tensor.alias on({DEVICE}) {new} :"
                f" {mlir_type(type_)}{sizes_of(type_, sizes)}"
                f" to %{symbol(owners[result])} : {BUFFER}"
            )


def _text(function: Function) -> str:
    kinds = [mlir_type(kind) for _, kind in function.results]
    last = len(function.arguments) - 1
    listed = [
        f"      {name}: {kind}{',' if number < last else ''}"
        for number, (name, kind) in enumerate(function.arguments)
    ]
    # Called once, it may as well be inlined; but of several inlined functions that
    # write one buffer IREE 3.13 keeps what one of them wrote.
    writes = BUFFER in {kind for _, kind in function.arguments}
    apart = function.apart and (function.n_calls > 1 or writes)
    shared = (
        " attributes {\n"
        f"    inlining_policy = #util.inline.never, stream.affinity = {DEVICE}\n  }}"
    )
    return "\n".join(
        [
            f"  util.func private @{function.name}(",
            *listed,
            f"  ) -> {result_list(kinds)}{shared if apart else ''} {{",
            *(f"    {line}".rstrip() for line in function.lines),
            f"    util.return {', '.join(function.returned)} : {', '.join(kinds)}",
            "  }",
        ]
    )
