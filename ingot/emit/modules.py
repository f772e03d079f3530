"""Write the MLIR modules of a graph: the model, and its pieces for the check.

`main_module` exports the model's entry points. The module of a component exports
`@component.<instance>` with every tensor and scalar as an argument. The module of a
form of block exports `@block.<entry point>.<block>` with the block's inputs as
arguments and its parameters from the irpa. The model and the forms call the functions
of their blocks, and these call the specialised instances that `iree-link` adds, so all
of them run the same code.

The text is laid out like MLIR that a person writes and names its values after the
manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ingot.emit.aliasing import Step
from ingot.emit.block_functions import Blocks
from ingot.emit.function_body import Run
from ingot.emit.index_guards import guard_indices
from ingot.emit.mlir_text import (
    Formals,
    View,
    call,
    declaration,
    function,
    mlir_type,
    symbol,
)
from ingot.emit.shape_guards import guard
from ingot.errors import IngotError
from ingot.model.graph import (
    Block,
    DynamicDim,
    EntryPoint,
    Graph,
    Instance,
    held_values,
)

PARAMETER_SCOPE = "model"

# iree-link 3.13 does not resolve `@<instance>.forward` in a module that has one itself.
RESERVED = "forward"


def main_module(graph: Graph) -> str:
    """Return the module that exports every entry point of the model.

    Raises: IngotError if an entry point has a name that linking reserves.
    """
    exports = [entry.name for entry in graph.entry_points]
    if RESERVED in exports:
        raise IngotError(
            f"{graph.model}: an entry point cannot be named '{RESERVED}'",
            "the functions of components have that name; choose another, such as 'run'",
        )
    blocks = Blocks(graph)
    functions = [_entry_point(blocks, entry) for entry in graph.entry_points]
    name = symbol(graph.model)
    called = [block for entry in graph.entry_points for block in entry.blocks]
    return _module(name, "entry points", exports, functions, blocks, called)


# The module of a small model's components, and that of its blocks.
ALL = "all"


@dataclass(frozen=True, slots=True)
class BlockForm:
    """The blocks that share a function, or a module of the check."""

    name: str  # of the function: "prefill.layer"
    blocks: tuple[tuple[str, str], ...]  # (entry point, block), in the model's order


def block_forms(graph: Graph) -> tuple[BlockForm, ...]:
    """Return the forms of the graph's blocks, in the order of the model."""
    return graph.once(_block_forms)


def _block_forms(graph: Graph) -> tuple[BlockForm, ...]:
    blocks, found = Blocks(graph), dict[str, list[tuple[str, str]]]()
    for entry in graph.entry_points:
        for step in blocks.memory(entry).steps:
            function = blocks.function(entry, step)
            found.setdefault(function.name, []).append((entry.name, step.block.name))
    return tuple(BlockForm(name, tuple(members)) for name, members in found.items())


def block_modules(graph: Graph) -> tuple[BlockForm, ...]:
    """Return the blocks of each module of the check: a form, or all of a small model.

    A small model is one module because the compiler starts once for it.
    """
    forms = block_forms(graph)
    if not graph.is_small:
        return forms
    return (BlockForm(ALL, tuple(pair for form in forms for pair in form.blocks)),)


def block_module(graph: Graph, form: BlockForm) -> str:
    """Return the module that exports every block of a form."""
    functions, exports, called = [], [], []
    blocks = Blocks(graph)
    for entry in graph.entry_points:
        for step in blocks.memory(entry).steps:
            if (entry.name, step.block.name) in form.blocks:
                exports.append(block_function(entry.name, step.block.name))
                functions.append(_block(blocks, entry, step, exports[-1]))
                called.append(step.block)
    name = f"{symbol(graph.model)}.{symbol(form.name)}"
    return _module(name, "blocks of one form", exports, functions, blocks, called)


@dataclass(frozen=True, slots=True)
class ComponentGroup:
    """The instances of one module of the check."""

    name: str
    instances: tuple[Instance, ...]


def component_groups(graph: Graph, is_slow: bool) -> tuple[ComponentGroup, ...]:
    """Return the groups in which the graph's instances are checked.

    A slow target takes seconds for an instance, so each is a group. For the others, to
    start the compiler and the check costs more than an instance, so all instances of a
    component are one group: an edit changes all of them anyway. All of a small model
    are one group.
    """
    if graph.is_small:
        return (ComponentGroup(ALL, graph.instances),)
    if is_slow:
        return tuple(ComponentGroup(x.name, (x,)) for x in graph.instances)
    found: dict[str, list[Instance]] = {}
    for instance in graph.instances:
        found.setdefault(instance.component, []).append(instance)
    return tuple(
        ComponentGroup(component.replace("/", "."), tuple(instances))
        for component, instances in found.items()
    )


def component_module(group: ComponentGroup, dynamic: tuple[DynamicDim, ...]) -> str:
    """Return the module that exports instances, with the sizes that a model allows.

    It contains nothing else of the model, so that models share the compiled module.
    """
    name, instances = symbol(group.name), group.instances
    exports = [component_function(instance.name) for instance in instances]
    functions = [
        _component(dynamic, instance, export)
        for instance, export in zip(instances, exports, strict=True)
    ]
    return (
        f"// {name}: the component, as the check calls it.\n//\n"
        "// Generated by ingot; do not edit.\n//\n"
        f"{_listed(exports)}\n"
        f"module @check.{name} {{\n"
        f"{_declarations(instances)}\n\n"
        f"{_joined(functions)}\n}}\n"
    )


def instances_of(graph: Graph, blocks: Iterable[Block]) -> tuple[Instance, ...]:
    """Return the instances that blocks call, in the graph's order."""
    called = {use.instance for block in blocks for use in block.calls}
    return tuple(item for item in graph.instances if item.name in called)


def component_function(instance: str) -> str:
    """Return the name of the function that runs one instance."""
    return f"component.{instance}"


def block_function(entry: str, block: str) -> str:
    """Return the name of the function that runs one block."""
    return f"block.{entry}.{block}"


def _module(
    name: str,
    what: str,
    exports: list[str],
    functions: list[str],
    blocks: Blocks,
    called: Collection[Block],
) -> str:
    """Return the module with everything that the called blocks need."""
    graph = blocks.graph
    read = {parameter for block in called for parameter in block.parameters}
    parameters = "\n".join(
        f"  util.global private @{symbol(item.name)} = #flow.parameter.named<"
        f'"{PARAMETER_SCOPE}"::"{item.name}"> : {mlir_type(item.type)}'
        for item in graph.parameters
        if item.name in read
    )
    return (
        f"// {name}: the {what} of the model {graph.model}.\n//\n"
        f"// Generated by ingot from models/{graph.model}.yaml; do not edit.\n//\n"
        f"{_listed(exports)}\n"
        f"module @{name} {{\n"
        f'  // Parameters: the irpa, scope "{PARAMETER_SCOPE}".\n{parameters}\n\n'
        f"{_declarations(instances_of(graph, called))}\n\n"
        "  // What blocks of one form do.\n"
        f"{_joined([*blocks.text(), *functions])}\n}}\n"
    )


def _listed(exports: Iterable[str]) -> str:
    return "\n".join(f"// Exports: @{export}" for export in exports)


def _declarations(instances: Iterable[Instance]) -> str:
    return "\n".join(
        ["  // Component instances, linked in.", *map(declaration, instances)]
    )


def _joined(functions: Iterable[str]) -> str:
    return "\n\n".join(functions)


def _entry_point(blocks: Blocks, entry: EntryPoint) -> str:
    formals, run = _start(blocks, entry)
    for step in blocks.memory(entry).steps:
        run.call(step)
    results: Formals = [
        (port.name, View(port.type) if port.updates else port.type)
        for port in entry.outputs
    ]
    # An updated input is returned as the buffer that the caller passed.
    returned = [
        f"%{symbol(port.updates)}" if port.updates else run.values[port.value]
        for port in entry.outputs
    ]
    return function(entry.name, formals, results, run.lines, returned)


def _block(blocks: Blocks, entry: EntryPoint, step: Step, name: str) -> str:
    block, held = step.block, step.held
    types, owned = dict(block.types), {formal: formal for formal in held}
    formals: Formals = [
        (formal, View(types[formal]) if formal in held else types[formal])
        for formal, _ in block.inputs
    ]
    lines, guarded = guard(formals, blocks.graph.dynamic)
    values = {value: guarded[formal] for formal, value in block.inputs}
    run = Run(blocks, entry, lines, values)
    run.call(step)
    owners, _ = held_values(block, owned)
    results: Formals = [
        (value, View(types[inner]) if inner in owners else types[inner])
        for value, inner in block.outputs
    ]
    returned = [
        f"%{symbol(owners[inner])}" if inner in owners else run.values[value]
        for value, inner in block.outputs
    ]
    return function(name, formals, results, run.lines, returned)


def _start(blocks: Blocks, entry: EntryPoint) -> tuple[Formals, Run]:
    """Return an entry point's arguments, and its body up to the first block."""
    host_inputs = blocks.graph.host_inputs
    viewed = {port.updates for port in entry.outputs}
    if host_inputs:
        viewed |= {port.name for port in entry.inputs if port.limits}
    formals: Formals = [
        (port.name, View(port.type) if port.name in viewed else port.type)
        for port in entry.inputs
    ]
    lines, guarded = guard(formals, blocks.graph.dynamic)
    compared, guarded = guard_indices(entry.inputs, guarded, host_inputs)
    lines += compared
    values = {port.value: guarded[port.name] for port in entry.inputs}
    return formals, Run(blocks, entry, lines, values)


def _component(dynamic: tuple[DynamicDim, ...], instance: Instance, name: str) -> str:
    formals: Formals = [(item.name, item.type) for item in instance.arguments]
    formals += list(instance.scalars)
    lines, guarded = guard(formals, dynamic)
    results: Formals = [(item.name, item.type) for item in instance.results]
    returned = [f"%result.{symbol(item.name)}" for item in instance.results]
    operands = [guarded[formal] for formal, _ in formals]
    lines += call(instance, operands, returned)
    return function(name, formals, results, lines, returned)
