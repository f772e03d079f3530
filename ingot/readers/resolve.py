"""An architecture and a model's sizes in, the model's resolved graph out.

Defects of the architecture and of the components it names are collected, each once, at
their own lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

from ingot.errors import ManifestError, did_you_mean
from ingot.graph import DynamicDim, Graph, Instance, Parameter
from ingot.readers.bind import LAYER, Scope, entries
from ingot.readers.blocks import BlockPattern, known_dim, resolve_block
from ingot.readers.component import ComponentSignature, read_component
from ingot.readers.entry_points import block_nodes, expand
from ingot.readers.shapes import SymbolicType, parse_dim
from ingot.readers.variants import base, written_out
from ingot.readers.yaml import Node

_WORD = re.compile("[a-z][a-z0-9_]*")


def resolve(
    model: str,
    architecture: Node,
    sizes: Mapping[str, int | None],
    numbers: Mapping[str, float | int],
    dynamic: tuple[DynamicDim, ...],
    names: str,
    tied: Mapping[str, str],
    root: Path,
    errors: list[ManifestError],
) -> Graph:
    """Return the graph of a checked architecture; it is of use only without errors.

    `sizes` has every dim, None for the dynamic ones; `names` is the naming scheme of
    the weight source, "hf" or "gguf"; `tied` has the parameters that others serve for.
    """
    parameters = _parameter_types(architecture, sizes, errors)
    scope = Scope(sizes, numbers, parameters, tied)
    blocks = _Blocks(architecture["blocks"], Components(root, errors), errors)
    expanded = []
    instances: list[Instance] = []
    for name, node in architecture["entry_points"].entries.items():
        fixed = scope.fix(_fixed(node, sizes, errors))
        patterns = blocks.resolved(fixed)
        expanded.append(expand(name, node, patterns, fixed, errors))
        used = {block.kind for block in expanded[-1].entry_point.blocks}
        instances += [item for kind in used for item in patterns[kind].instances]
    taken = [item for entry in expanded for item in entry.parameters]
    path = architecture.position.path
    # Behind another mistake most unused names are its consequences.
    if not any(error.position.path == path for error in errors):
        _refuse_unused(architecture, errors)
    return Graph(
        model=model,
        dynamic=dynamic,
        instances=_instances(instances, architecture, errors),
        parameters=_unique(
            _parameters(architecture, scope, taken, names), architecture, errors
        ),
        entry_points=tuple(item.entry_point for item in expanded),
    )


def _fixed(
    entry_point: Node, sizes: Mapping[str, int | None], errors: list[ManifestError]
) -> dict[str, int]:
    """Return the dynamic dims that have one size in an entry point."""
    given = entries(entry_point, "dims")
    dynamic = [name for name, size in sizes.items() if size is None]
    for name in given:
        if name not in dynamic:
            hint = did_you_mean(name, dynamic, "dynamic dims")
            message = f"no dynamic dim named '{name}'"
            errors.append(entry_point["dims"].key_error(name, message, hint))
    return {name: size.integer for name, size in given.items() if name in dynamic}


class _Blocks:
    """The blocks of an architecture, resolved for each entry point's dims."""

    def __init__(
        self, node: Node, components: Components, errors: list[ManifestError]
    ) -> None:
        self.nodes = written_out(node, errors)
        self.components = components
        self.errors = errors

    def resolved(self, scope: Scope) -> dict[str, BlockPattern]:
        """Return the blocks by name; what is wrong is told once, not once a scope."""
        found: list[ManifestError] = []
        patterns = {
            kind: resolve_block(kind, node, scope, self.components.find, found)
            for kind, node in self.nodes.items()
        }
        told = {str(error) for error in self.errors}
        self.errors.extend(error for error in found if str(error) not in told)
        return patterns


class Components:
    """The components of a checkout, read when they are named; each is reported once."""

    def __init__(self, root: Path, errors: list[ManifestError]) -> None:
        """Look below `root / "components"`, and add what is wrong to the errors."""
        self.root = root
        self.errors = errors
        self.found: dict[str, ComponentSignature | None] = {}

    def find(self, node: Node) -> ComponentSignature | None:
        """Return the signature of the component that a node names."""
        name = node.text
        if name not in self.found:
            self.found[name] = None
            if not (self.root / "components" / f"{name}.mlir").is_file():
                hint = did_you_mean(name, self.names(), "components")
                self.errors.append(node.error(f"no component named '{name}'", hint))
                # Not kept: each node that names it is wrong.
                del self.found[name]
                return None
            try:
                self.found[name] = read_component(name, self.root)
            except ExceptionGroup as group:
                self.errors.extend(
                    error
                    for error in group.exceptions
                    if isinstance(error, ManifestError)
                )
        return self.found[name]

    def names(self) -> list[str]:
        """Return the names of all components, sorted."""
        folder = self.root / "components"
        return sorted(
            path.relative_to(folder).with_suffix("").as_posix()
            for path in folder.glob("*/*.mlir")
        )


def _parameter_types(
    architecture: Node, sizes: Mapping[str, int | None], errors: list[ManifestError]
) -> dict[str, SymbolicType | None]:
    """Return the type of each declared parameter: f32 is what components take."""
    scope = Scope(sizes, {}, {})
    types: dict[str, SymbolicType | None] = {}
    for name, node in architecture["parameters"].entries.items():
        shape = tuple(parse_dim(str(item.value)) for item in node["shape"].items)
        declared = SymbolicType(shape, "f32")
        before = len(errors)
        for item, dim in zip(node["shape"].items, shape, strict=True):
            known_dim(dim, item, scope, errors)
            if sizes.get(str(dim), 1) is None:
                message = f"'{dim}' stays dynamic; a parameter has a fixed shape"
                errors.append(item.error(message))
        types[name] = declared if len(errors) == before else None
        if (hf := node.get("hf")) and LAYER in hf.text and LAYER not in name:
            message = f"{LAYER} in 'hf', and not in the parameter's name"
            errors.append(hf.error(message))
    return types


def _parameters(
    architecture: Node,
    scope: Scope,
    taken: Iterable[tuple[str, int | None]],
    names: str,
) -> Iterator[Parameter]:
    """Yield the parameters in the architecture's order, a run with {layer} by layer."""
    layers: dict[str, dict[int | None, None]] = {}
    for name, layer in taken:
        layers.setdefault(name, {})[layer] = None
    declared = architecture["parameters"].entries.items()
    for layered, run in groupby(declared, lambda item: LAYER in item[0]):
        group = list(run)
        numbers: list[int | None] = [None]
        if layered:
            found = {number for name, _ in group for number in layers.get(name, ())}
            numbers = [*sorted(number for number in found if number is not None)]
        for number in numbers:
            for name, node in group:
                if number in layers.get(name, ()) and scope.parameters[name]:
                    yield _parameter(name, node, number, scope, names)


def _unique(
    parameters: Iterable[Parameter], architecture: Node, errors: list[ManifestError]
) -> tuple[Parameter, ...]:
    """Return the parameters; `blk.0.x` and layer 0 of `blk.{layer}.x` are an error."""
    found: dict[str, Parameter] = {}
    for item in parameters:
        if item.name in found:
            message = f"'{item.name}' is declared twice, with and without {LAYER}"
            parameters_node = architecture["parameters"]
            errors.append(parameters_node.key_error(item.name, message))
        found[item.name] = item
    return tuple(found.values())


def _parameter(
    name: str, node: Node, layer: int | None, scope: Scope, names: str
) -> Parameter:
    number = "" if layer is None else str(layer)
    found = node.get("hf") if names == "hf" else None
    source = found.text if found else name
    declared = scope.parameters[name]
    assert declared, name
    offset, heads = node.get("hf_offset"), node.get("gguf_interleaved")
    rope = node.get("rope_base")
    resolved = parse_dim(heads.text).resolve(scope.sizes) if heads else None
    return Parameter(
        name=name.replace(LAYER, number),
        type=declared.resolve(scope.sizes),
        source_name=source.replace(LAYER, number),
        offset=offset.number if offset and names == "hf" else 0.0,
        interleaved_heads=int(resolved) if resolved and names == "gguf" else None,
        table=("rope", float(scope.numbers[rope.text])) if rope else None,
    )


def _instances(
    instances: Iterable[Instance], architecture: Node, errors: list[ManifestError]
) -> tuple[Instance, ...]:
    """Return the instances by name; two components may not share a file's stem."""
    found: dict[str, Instance] = {}
    for instance in instances:
        other = found.setdefault(instance.name, instance)
        if other.component != instance.component:
            message = f"'{other.component}' and '{instance.component}'"
            errors.append(architecture["blocks"].error(f"{message} share a file name"))
    return tuple(found[name] for name in sorted(found))


def _refuse_unused(architecture: Node, errors: list[ManifestError]) -> None:
    """Add an error for each block and parameter that nothing takes."""
    called = {
        base(node.text)
        for entry in architecture["entry_points"].entries.values()
        for step in entry["steps"].items
        for node in block_nodes(step)
    }
    blocks = architecture["blocks"]
    for kind in blocks.entries:
        if kind not in called:
            errors.append(blocks.key_error(kind, f"no step calls block '{kind}'"))
    # As written, so that a parameter of a node that does not fit is not reported too.
    nodes = [node for block in blocks.entries.values() for node in block["nodes"].items]
    written = {
        entry.text for node in nodes for entry in entries(node, "parameters").values()
    } | {
        str(value.value)
        for block in blocks.entries.values()
        for variant in entries(block, "variants").values()
        for value in variant.entries.values()
    }
    parameters = architecture["parameters"]
    for name in parameters.entries:
        if name not in written:
            message = f"no node takes parameter '{name}'"
            errors.append(parameters.key_error(name, message))
    mentioned = _mentioned(architecture)
    for key in ("dims", "hyperparameters"):
        declared = architecture.get(key)
        for item in declared.items if declared else ():
            if item.text not in mentioned:
                errors.append(item.error(f"nothing mentions '{item.text}'"))


def _mentioned(architecture: Node) -> set[str]:
    """Return the words of all shapes, types, attributes and repeats."""
    # The longest sequence is bounded by it, in the manifest.
    words = ["n_ctx"]
    for parameter in architecture["parameters"].entries.values():
        words += [str(item.value) for item in parameter["shape"].items]
        words += [found.text] if (found := parameter.get("rope_base")) else []
    for block in architecture["blocks"].entries.values():
        words += [entry.text for entry in block["inputs"].entries.values()]
        for variant in entries(block, "variants").values():
            words += [str(value.value) for value in variant.entries.values()]
        for node in block["nodes"].items:
            words += [str(e.value) for e in entries(node, "attributes").values()]
    for point in architecture["entry_points"].entries.values():
        words += [entry["type"].text for entry in point["inputs"].entries.values()]
        for step in point["steps"].items:
            words += [str(repeat.value)] if (repeat := step.get("repeat")) else []
    return {name for word in words for name in _WORD.findall(word)}
