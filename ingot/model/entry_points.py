"""An entry point of an architecture in, its blocks with every layer written out.

Steps hand values on by name. A step may define a value again only where it also takes
it, as a layer does with the hidden state: anything else would lose what was there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ingot.errors import ManifestError, did_you_mean
from ingot.model.bind import LAYER, Scope
from ingot.model.graph import Block, Call, EntryPoint, Port
from ingot.model.resolve_blocks import BlockPattern, Types, read_type
from ingot.model.shapes import SymbolicType
from ingot.model.variants import block_name
from ingot.model.yaml_nodes import Node

# Ten times the deepest published models; every layer is written out.
_MAX_LAYERS = 1000


@dataclass(frozen=True, slots=True)
class Expanded:
    """An entry point, and each parameter that it takes: (name with {layer}, layer)."""

    entry_point: EntryPoint
    parameters: tuple[tuple[str, int | None], ...]


def expand(
    name: str,
    node: Node,
    patterns: Mapping[str, BlockPattern],
    scope: Scope,
    errors: list[ManifestError],
) -> Expanded:
    """Return the entry point that a checked node describes; defects are added."""
    before = len(errors)
    types: Types = {
        key: read_type(entry["type"], scope, errors)
        for key, entry in node["inputs"].entries.items()
    }
    types_of_inputs = dict(types)
    inputs = tuple(
        _port(key, types.get(key), entry["role"].text, key, scope)
        for key, entry in node["inputs"].entries.items()
    )
    blocks: list[Block] = []
    parameters: list[tuple[str, int | None]] = []
    used: set[str] = set()
    for step in node["steps"].items:
        used.update(entry.text for entry in step["operands"].entries.values())
        for block, taken in _step(step, patterns, types, scope, errors):
            if block.name in {other.name for other in blocks}:
                message = f"two steps make a block named '{block.name}'"
                errors.append(step.error(message, "give one of them a 'name'"))
                break
            blocks.append(block)
            parameters.extend(taken)
    outputs = []
    for key, entry in node["outputs"].entries.items():
        used.add(entry["value"].text)
        found = _value(entry["value"], types, errors)
        port = _port(key, found, entry["role"].text, entry["value"].text, scope)
        updates = _updated(node, entry, found, types_of_inputs, errors)
        outputs.append(replace(port, updates=updates))
    if len(errors) == before:
        _refuse_unused(node, used, errors)
    entry_point = EntryPoint(name, inputs, tuple(blocks), tuple(outputs))
    return Expanded(entry_point, tuple(parameters))


def block_nodes(step: Node) -> tuple[Node, ...]:
    """Return the nodes that name the blocks of a step."""
    block = step["block"]
    return (block,) if isinstance(block.value, str) else block.items


def _step(
    step: Node,
    patterns: Mapping[str, BlockPattern],
    types: Types,
    scope: Scope,
    errors: list[ManifestError],
) -> Iterator[tuple[Block, list[tuple[str, int | None]]]]:
    """Yield the step's blocks with the parameters that each takes."""
    before = len(errors)
    layers = _layers(step, scope, errors)
    for entry in block_nodes(step):
        if entry.text not in patterns:
            hint = did_you_mean(entry.text, list(patterns), "blocks")
            errors.append(entry.error(f"no block named '{entry.text}'", hint))
    kinds = [patterns.get(entry.text) for entry in block_nodes(step)]
    results: Types = {}
    for pattern in dict.fromkeys(item.kind for item in kinds if item):
        if _check_operands(step, patterns[pattern], types, errors):
            results = _check_results(step, patterns[pattern], types, errors)
        if layers is None and patterns[pattern].layered:
            message = f"block '{pattern}' depends on {LAYER}"
            errors.append(step["block"].error(message, "give the step a 'repeat'"))
    types.update(results)
    if len(errors) > before:
        types.update((entry.text, None) for entry in step["results"].entries.values())
        return
    count = 1 if layers is None else layers
    for layer in range(count):
        found = kinds[layer % len(kinds)]
        assert found is not None
        yield _block(step, found, None if layers is None else layer)


def _layers(step: Node, scope: Scope, errors: list[ManifestError]) -> int | None:
    """Return how often a step is repeated; None where it is not."""
    repeat = step.get("repeat")
    if repeat is None:
        if not isinstance(step["block"].value, str):
            message = "a sequence of blocks needs a 'repeat'"
            errors.append(step["block"].error(message))
        return None
    text = str(repeat.value)
    size = int(text) if text.isdigit() else scope.sizes.get(text)
    if size is None:
        static = [name for name, found in scope.sizes.items() if found is not None]
        hint = did_you_mean(text, static, "dims")
        errors.append(repeat.error(f"no dim of fixed size '{text}'", hint))
        return 1
    if size > _MAX_LAYERS:
        message = f"expected at most {_MAX_LAYERS} layers, found {size}"
        errors.append(repeat.error(message))
    return size


def _check_operands(
    step: Node, pattern: BlockPattern, types: Types, errors: list[ManifestError]
) -> bool:
    """Return whether the block is given what it takes; add errors where not."""
    before = len(errors)
    operands = step["operands"]
    for name, entry in operands.entries.items():
        if name not in pattern.inputs:
            hint = did_you_mean(name, list(pattern.inputs), "inputs")
            message = f"block '{pattern.kind}' has no input '{name}'"
            errors.append(operands.key_error(name, message, hint))
            continue
        found, wanted = _value(entry, types, errors), pattern.inputs[name]
        if found and wanted and found != wanted:
            message = f"'{entry.text}' does not fit block '{pattern.kind}'"
            errors.append(entry.error(f"{message}; expected {wanted}, found {found}"))
    for name in pattern.inputs:
        if name not in operands.entries:
            message = f"input '{name}' of block '{pattern.kind}' is missing"
            errors.append(operands.error(message))
    return len(errors) == before


def _check_results(
    step: Node, pattern: BlockPattern, types: Types, errors: list[ManifestError]
) -> Types:
    """Return the values that a step defines, by name."""
    results = step["results"]
    operands = {entry.text for entry in step["operands"].entries.values()}
    defined: Types = {}
    for name, entry in results.entries.items():
        if name not in pattern.outputs:
            hint = did_you_mean(name, list(pattern.outputs), "outputs")
            message = f"block '{pattern.kind}' has no output '{name}'"
            errors.append(results.key_error(name, message, hint))
            continue
        found, value = pattern.outputs[name][1], entry.text
        defined[value] = found
        if value in types and value not in operands:
            message = f"'{value}' is defined already, and this step does not take it"
            errors.append(entry.error(message, "give the result another name"))
        elif value in types and found and types[value] and types[value] != found:
            message = f"'{value}' changes its type"
            errors.append(
                entry.error(f"{message}; expected {types[value]}, found {found}")
            )
        elif step.get("repeat") and value not in operands:
            message = f"'{value}' is overwritten by the next layer"
            errors.append(entry.error(message, "name it among the operands as well"))
    return defined


def _block(
    step: Node, pattern: BlockPattern, layer: int | None
) -> tuple[Block, list[tuple[str, int | None]]]:
    """Return a layer of a block, and the parameters that it takes."""
    name = found.text if (found := step.get("name")) else block_name(pattern.kind)
    calls = pattern.calls
    if layer is not None:
        name = f"{name}.{layer}"
        calls = tuple(_numbered(call, layer) for call in calls)
    block = Block(
        name=name,
        kind=pattern.kind,
        inputs=tuple(
            (formal, step["operands"][formal].text) for formal in pattern.inputs
        ),
        calls=calls,
        outputs=tuple(
            (entry.text, pattern.outputs[output][0])
            for output, entry in step["results"].entries.items()
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
    entry: Node, types: Types, errors: list[ManifestError]
) -> SymbolicType | None:
    if entry.text not in types:
        hint = did_you_mean(entry.text, list(types), "values")
        errors.append(entry.error(f"no value named '{entry.text}' here", hint))
    return types.get(entry.text)


def _port(
    name: str, found: SymbolicType | None, role: str, value: str, scope: Scope
) -> Port:
    # A wrong type was reported; the port is never seen.
    resolved = (found or SymbolicType((), "f32")).resolve(scope.sizes)
    return Port(name, resolved, role, value)


def _updated(
    node: Node,
    entry: Node,
    output: SymbolicType | None,
    inputs: Types,
    errors: list[ManifestError],
) -> str:
    """Return the input that an output replaces, "" where it replaces none."""
    found = entry.get("updates")
    if found is None:
        return ""
    replaced = inputs.get(found.text)
    others = [item for item in node["outputs"].entries.values() if item is not entry]
    if found.text not in inputs:
        hint = did_you_mean(found.text, list(inputs), "inputs")
        errors.append(found.error(f"no input named '{found.text}'", hint))
    elif replaced and output and replaced != output:
        message = f"'{entry['value'].text}' does not fit the memory of '{found.text}'"
        errors.append(found.error(f"{message}; expected {replaced}, found {output}"))
    elif any(
        other.text == found.text for item in others if (other := item.get("updates"))
    ):
        errors.append(found.error(f"two outputs replace '{found.text}'"))
    return found.text


def _refuse_unused(node: Node, used: set[str], errors: list[ManifestError]) -> None:
    for name in node["inputs"].entries:
        if name not in used:
            message = f"input '{name}' is used by no step"
            errors.append(node["inputs"].key_error(name, message))
    for step in node["steps"].items:
        for entry in step["results"].entries.values():
            if entry.text not in used:
                message = f"value '{entry.text}' is used by nothing"
                errors.append(entry.error(message))
