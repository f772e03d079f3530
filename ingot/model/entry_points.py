"""Write out an entry point of an architecture: its blocks, layer by layer.

Steps hand values on by name. A step may define a value again only where it also takes
it, as a layer does with the hidden state: anything else would lose what was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import (
    EntryPointSection,
    OutputSection,
    StepSection,
)
from ingot.model.bind import LAYER, Scope
from ingot.model.graph import Block, Call, EntryPoint, Port
from ingot.model.resolve_blocks import BlockPattern, Types, check_input, read_type
from ingot.model.schema_types import Place
from ingot.model.shapes import SymbolicType
from ingot.model.variants import block_name

# Ten times the deepest published models; every layer is written out.
_MAX_LAYERS = 1000

Taken = tuple[str, int | None]
"""A parameter, with {layer} in its name, and the layer that takes it."""


@dataclass(frozen=True, slots=True)
class Expanded:
    """An entry point, and each parameter that it takes."""

    entry_point: EntryPoint
    parameters: tuple[Taken, ...]


def expand(
    name: str,
    section: EntryPointSection,
    patterns: Mapping[str, BlockPattern],
    scope: Scope,
) -> Expanded:
    """Return the entry point that a section describes; report what is wrong."""
    before = len(scope.errors)
    types: Types = {
        key: read_type(item.type, item.at.part("type"), scope)
        for key, item in section.inputs.items()
    }
    types_of_inputs = dict(types)
    inputs = tuple(
        _port(key, types[key], item.role, key, scope)
        for key, item in section.inputs.items()
    )
    blocks: dict[str, Block] = {}
    parameters: list[Taken] = []
    for step in section.steps:
        for block, taken in _step(step, patterns, types, scope):
            if block.name in blocks:
                message = f"two steps make a block named '{block.name}'"
                scope.error(step.at, message, "give one of them a 'name'")
                break
            blocks[block.name] = block
            parameters.extend(taken)
    outputs = []
    for key, output in section.outputs.items():
        found = _value(output.value, output.at.part("value"), types, scope)
        port = _port(key, found, output.role, output.value, scope)
        scope.errors.extend(_check_update(section, output, found, types_of_inputs))
        outputs.append(replace(port, updates=output.updates))
    if len(scope.errors) == before:
        scope.errors.extend(_unused(section))
    entry_point = EntryPoint(name, inputs, tuple(blocks.values()), tuple(outputs))
    return Expanded(entry_point, tuple(parameters))


def _step(
    step: StepSection, patterns: Mapping[str, BlockPattern], types: Types, scope: Scope
) -> Iterator[tuple[Block, list[Taken]]]:
    """Yield the step's blocks with the parameters that each takes."""
    before = len(scope.errors)
    layers = _layers(step, scope)
    for part, name in step.blocks.items():
        if name not in patterns:
            hint = did_you_mean(name, list(patterns), "blocks")
            scope.error(step.at.part(part), f"no block named '{name}'", hint)
    kinds = [patterns[name] for name in step.blocks.values() if name in patterns]
    results: Types = {}
    for pattern in {item.kind: item for item in kinds}.values():
        if _check_operands(step, pattern, types, scope):
            results = _check_results(step, pattern, types, scope)
        if layers is None and pattern.is_layered:
            message = f"block '{pattern.kind}' depends on {LAYER}"
            scope.error(step.at.part("block"), message, "give the step a 'repeat'")
    types.update(results)
    if len(scope.errors) > before:
        types.update((value, None) for value in step.results.values())
    elif layers is None:
        yield _block(step, kinds[0], None)
    else:
        for layer in range(layers):
            yield _block(step, kinds[layer % len(kinds)], layer)


def _layers(step: StepSection, scope: Scope) -> int | None:
    """Return how often a step is repeated; None where it is not."""
    if not step.repeat:
        if not isinstance(step.block, str):
            message = "a sequence of blocks needs a 'repeat'"
            scope.error(step.at.part("block"), message)
        return None
    text, at = str(step.repeat), step.at.part("repeat")
    size = int(text) if text.isdigit() else scope.sizes.get(text)
    if size is None:
        static = [name for name, found in scope.sizes.items() if found is not None]
        hint = did_you_mean(text, static, "dims")
        scope.error(at, f"no dim of fixed size '{text}'", hint)
        return 1
    if size > _MAX_LAYERS:
        scope.error(at, f"expected at most {_MAX_LAYERS} layers, found {size}")
    return size


def _check_operands(
    step: StepSection, pattern: BlockPattern, types: Types, scope: Scope
) -> bool:
    """Return whether a step gives a block what it takes; report if not."""
    before = len(scope.errors)
    for name, value in step.operands.items():
        found = None
        if name in pattern.inputs:
            found = _value(value, step.at.part(f"operands.{name}"), types, scope)
        check_input(pattern, name, value, found, step.at, scope)
    for name in pattern.inputs:
        if name not in step.operands:
            message = f"input '{name}' of block '{pattern.kind}' is missing"
            scope.error(step.at.part("operands"), message)
    return len(scope.errors) == before


def _check_results(
    step: StepSection, pattern: BlockPattern, types: Types, scope: Scope
) -> Types:
    """Return the values that a step defines, by name; report wrong ones."""
    operands = {*step.operands.values()}
    defined: Types = {}
    for name, value in step.results.items():
        if name not in pattern.outputs:
            hint = did_you_mean(name, list(pattern.outputs), "outputs")
            message = f"block '{pattern.kind}' has no output '{name}'"
            scope.errors.append(step.at.key_error("results", name, message, hint))
            continue
        found = defined[value] = pattern.outputs[name][1]
        old, at = types.get(value), step.at.part(f"results.{name}")
        if value in types and value not in operands:
            message = f"'{value}' is defined already, and this step does not take it"
            scope.error(at, message, "give the result another name")
        elif found and old and old != found:
            message = f"'{value}' changes its type"
            scope.error(at, f"{message}; expected {old}, found {found}")
        elif step.repeat and value not in operands:
            message = f"'{value}' is overwritten by the next layer"
            scope.error(at, message, "name it among the operands as well")
    return defined


def _block(
    step: StepSection, pattern: BlockPattern, layer: int | None
) -> tuple[Block, list[Taken]]:
    """Return a layer of a block, and the parameters that it takes."""
    name = step.name or block_name(pattern.kind)
    calls = pattern.calls
    if layer is not None:
        name = f"{name}.{layer}"
        calls = tuple(_numbered(call, layer) for call in calls)
    block = Block(
        name=name,
        kind=pattern.kind,
        inputs=tuple((formal, step.operands[formal]) for formal in pattern.inputs),
        calls=calls,
        outputs=tuple(
            (value, pattern.outputs[output][0])
            for output, value in step.results.items()
        ),
        types=pattern.types,
    )
    taken = [(name, layer if LAYER in name else None) for name in pattern.parameters]
    return block, taken


def _numbered(call: Call, layer: int) -> Call:
    operands = tuple(name.replace(LAYER, str(layer)) for name in call.operands)
    scalars = tuple(
        layer if index in call.layered else value
        for index, value in enumerate(call.scalars)
    )
    return replace(call, operands=operands, scalars=scalars)


def _value(name: str, at: Place, types: Types, scope: Scope) -> SymbolicType | None:
    if name not in types:
        hint = did_you_mean(name, list(types), "values")
        scope.error(at, f"no value named '{name}' here", hint)
    return types.get(name)


def _port(
    name: str, found: SymbolicType | None, role: str, value: str, scope: Scope
) -> Port:
    # A wrong type was reported; nobody sees the port.
    resolved = (found or SymbolicType((), "f32")).resolve(scope.sizes)
    return Port(name, resolved, role, value)


def _check_update(
    section: EntryPointSection,
    output: OutputSection,
    found: SymbolicType | None,
    inputs: Types,
) -> Iterator[ManifestError]:
    """Yield why an output cannot replace the input that it names."""
    name = output.updates
    if not name:
        return
    replaced = inputs.get(name)
    others = [item for item in section.outputs.values() if item is not output]
    if name not in inputs:
        hint = did_you_mean(name, list(inputs), "inputs")
        yield output.at.error("updates", f"no input named '{name}'", hint)
    elif replaced and found and replaced != found:
        message = f"'{output.value}' does not fit the memory of '{name}'"
        message = f"{message}; expected {replaced}, found {found}"
        yield output.at.error("updates", message)
    elif any(item.updates == name for item in others):
        yield output.at.error("updates", f"two outputs replace '{name}'")


def _unused(section: EntryPointSection) -> Iterator[ManifestError]:
    """Yield each input and value of an entry point that nothing takes."""
    used = {output.value for output in section.outputs.values()}
    for step in section.steps:
        used.update(step.operands.values())
    for name in section.inputs:
        if name not in used:
            message = f"no step uses input '{name}'"
            yield section.at.key_error("inputs", name, message)
    for step in section.steps:
        for output, value in step.results.items():
            if value not in used:
                message = f"nothing uses value '{value}'"
                yield step.at.error(f"results.{output}", message)
