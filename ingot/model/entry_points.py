"""Write out an entry point of an architecture: its blocks, layer by layer.

Steps hand values on by name. A step may define a value again only where it also takes
it, as a layer does with the hidden state: anything else would lose what was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import (
    EntryPointSection,
    OutputSection,
    StepSection,
)
from ingot.model.bind import LAYER, Report, Scope
from ingot.model.graph import Block, Call, EntryPoint, Port
from ingot.model.resolve_blocks import BlockPattern, Types, read_type
from ingot.model.shapes import SymbolicType
from ingot.model.variants import block_name

# Ten times the deepest published models; every layer is written out.
_MAX_LAYERS = 1000


@dataclass(frozen=True, slots=True)
class Expanded:
    """An entry point, and each parameter that it takes: (name with {layer}, layer)."""

    entry_point: EntryPoint
    parameters: tuple[tuple[str, int | None], ...]


def expand(
    name: str,
    section: EntryPointSection,
    patterns: Mapping[str, BlockPattern],
    scope: Scope,
    errors: list[ManifestError],
) -> Expanded:
    """Return the entry point that a section describes; add defects to the errors."""
    before = len(errors)
    types: Types = {}
    for key, item in section.inputs.items():
        types[key] = read_type(item.type, partial(item.at.error, "type"), scope, errors)
    types_of_inputs = dict(types)
    inputs = tuple(
        _port(key, types[key], item.role, key, scope)
        for key, item in section.inputs.items()
    )
    blocks: list[Block] = []
    parameters: list[tuple[str, int | None]] = []
    used: set[str] = set()
    for step in section.steps:
        used.update(step.operands.values())
        for block, taken in _step(step, patterns, types, scope, errors):
            if block.name in {other.name for other in blocks}:
                message = f"two steps make a block named '{block.name}'"
                errors.append(step.at.error("", message, "give one of them a 'name'"))
                break
            blocks.append(block)
            parameters.extend(taken)
    outputs = []
    for key, output in section.outputs.items():
        used.add(output.value)
        found = _value(output.value, partial(output.at.error, "value"), types, errors)
        port = _port(key, found, output.role, output.value, scope)
        errors += _check_update(section, output, found, types_of_inputs)
        outputs.append(replace(port, updates=output.updates))
    if len(errors) == before:
        errors += _unused(section, used)
    entry_point = EntryPoint(name, inputs, tuple(blocks), tuple(outputs))
    return Expanded(entry_point, tuple(parameters))


def _step(
    step: StepSection,
    patterns: Mapping[str, BlockPattern],
    types: Types,
    scope: Scope,
    errors: list[ManifestError],
) -> Iterator[tuple[Block, list[tuple[str, int | None]]]]:
    """Yield the step's blocks with the parameters that each takes."""
    before = len(errors)
    layers = _layers(step, scope, errors)
    for part, name in step.blocks.items():
        if name not in patterns:
            hint = did_you_mean(name, list(patterns), "blocks")
            errors.append(step.at.error(part, f"no block named '{name}'", hint))
    kinds = [patterns.get(name) for name in step.blocks.values()]
    results: Types = {}
    for pattern in dict.fromkeys(item.kind for item in kinds if item):
        if _check_operands(step, patterns[pattern], types, errors):
            results = _check_results(step, patterns[pattern], types, errors)
        if layers is None and patterns[pattern].layered:
            message = f"block '{pattern}' depends on {LAYER}"
            errors.append(step.at.error("block", message, "give the step a 'repeat'"))
    types.update(results)
    if len(errors) > before:
        types.update((value, None) for value in step.results.values())
        return
    count = 1 if layers is None else layers
    for layer in range(count):
        found = kinds[layer % len(kinds)]
        assert found is not None
        yield _block(step, found, None if layers is None else layer)


def _layers(step: StepSection, scope: Scope, errors: list[ManifestError]) -> int | None:
    """Return how often a step is repeated; None where it is not."""
    if not step.repeat:
        if not isinstance(step.block, str):
            message = "a sequence of blocks needs a 'repeat'"
            errors.append(step.at.error("block", message))
        return None
    text = str(step.repeat)
    size = int(text) if text.isdigit() else scope.sizes.get(text)
    if size is None:
        static = [name for name, found in scope.sizes.items() if found is not None]
        hint = did_you_mean(text, static, "dims")
        errors.append(step.at.error("repeat", f"no dim of fixed size '{text}'", hint))
        return 1
    if size > _MAX_LAYERS:
        message = f"expected at most {_MAX_LAYERS} layers, found {size}"
        errors.append(step.at.error("repeat", message))
    return size


def _check_operands(
    step: StepSection, pattern: BlockPattern, types: Types, errors: list[ManifestError]
) -> bool:
    """Return whether the block is given what it takes; add errors where not."""
    before = len(errors)
    for name, value in step.operands.items():
        if name not in pattern.inputs:
            hint = did_you_mean(name, list(pattern.inputs), "inputs")
            message = f"block '{pattern.kind}' has no input '{name}'"
            errors.append(step.at.key_error("operands", name, message, hint))
            continue
        error = partial(step.at.error, f"operands.{name}")
        found, wanted = _value(value, error, types, errors), pattern.inputs[name]
        if found and wanted and found != wanted:
            message = f"'{value}' does not fit block '{pattern.kind}'"
            errors.append(error(f"{message}; expected {wanted}, found {found}"))
    for name in pattern.inputs:
        if name not in step.operands:
            message = f"input '{name}' of block '{pattern.kind}' is missing"
            errors.append(step.at.error("operands", message))
    return len(errors) == before


def _check_results(
    step: StepSection, pattern: BlockPattern, types: Types, errors: list[ManifestError]
) -> Types:
    """Return the values that a step defines, by name."""
    operands = {*step.operands.values()}
    defined: Types = {}
    for name, value in step.results.items():
        if name not in pattern.outputs:
            hint = did_you_mean(name, list(pattern.outputs), "outputs")
            message = f"block '{pattern.kind}' has no output '{name}'"
            errors.append(step.at.key_error("results", name, message, hint))
            continue
        found = defined[value] = pattern.outputs[name][1]
        error = partial(step.at.error, f"results.{name}")
        if value in types and value not in operands:
            message = f"'{value}' is defined already, and this step does not take it"
            errors.append(error(message, "give the result another name"))
        elif value in types and found and types[value] and types[value] != found:
            message = f"'{value}' changes its type"
            errors.append(error(f"{message}; expected {types[value]}, found {found}"))
        elif step.repeat and value not in operands:
            message = f"'{value}' is overwritten by the next layer"
            errors.append(error(message, "name it among the operands as well"))
    return defined


def _block(
    step: StepSection, pattern: BlockPattern, layer: int | None
) -> tuple[Block, list[tuple[str, int | None]]]:
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


def _value(
    name: str, error: Report, types: Types, errors: list[ManifestError]
) -> SymbolicType | None:
    if name not in types:
        hint = did_you_mean(name, list(types), "values")
        errors.append(error(f"no value named '{name}' here", hint))
    return types.get(name)


def _port(
    name: str, found: SymbolicType | None, role: str, value: str, scope: Scope
) -> Port:
    # A wrong type was reported; the port is never seen.
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


def _unused(section: EntryPointSection, used: set[str]) -> Iterator[ManifestError]:
    """Yield each input and value of an entry point that nothing takes."""
    for name in section.inputs:
        if name not in used:
            message = f"input '{name}' is used by no step"
            yield section.at.key_error("inputs", name, message)
    for step in section.steps:
        for output, value in step.results.items():
            if value not in used:
                message = f"value '{value}' is used by nothing"
                yield step.at.error(f"results.{output}", message)
