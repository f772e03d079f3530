"""A block of an architecture in, its calls with every type known out.

A block is resolved once, with `{layer}` still in the names of its parameters; each
layer is then a copy of it under another number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ingot.errors import ManifestError, did_you_mean
from ingot.model.bind import LAYER, Bound, Given, Scope, bind, entries
from ingot.model.component import ComponentSignature
from ingot.model.graph import Call, Instance, TensorType
from ingot.model.shapes import Product, SymbolicType, parse_type
from ingot.model.yaml_nodes import Node

PARAMETER = "param:"

Types = dict[str, SymbolicType | None]
"""Values by name; None where the definition is wrong and was reported."""

Find = Callable[[Node], ComponentSignature | None]
"""Gives the signature of the component that a node names, or reports that none is."""


@dataclass(frozen=True, slots=True)
class BlockPattern:
    """A block with `{layer}` in it."""

    kind: str
    inputs: Mapping[str, SymbolicType | None]
    outputs: Mapping[str, tuple[str, SymbolicType | None]]  # name: (value, type)
    calls: tuple[Call, ...]  # empty where anything is wrong
    types: tuple[tuple[str, TensorType], ...]  # of all values that are right
    parameters: tuple[str, ...]  # that the calls take, with {layer}
    layered: bool  # whether anything in it depends on the layer
    instances: tuple[Instance, ...]


def resolve_block(
    kind: str, node: Node, scope: Scope, find: Find, errors: list[ManifestError]
) -> BlockPattern:
    """Return the block that a checked node describes; add defects to the errors."""
    before = len(errors)
    inputs = {
        name: read_type(entry, scope, errors)
        for name, entry in node["inputs"].entries.items()
    }
    reader = _Nodes(node["nodes"].items, scope, find, errors, {**inputs})
    calls = reader.calls()
    outputs = {
        name: (entry.text, reader.value(entry))
        for name, entry in node["outputs"].entries.items()
    }
    if len(errors) == before:
        _refuse_unused(node, errors)
    parameters = tuple(
        name.removeprefix(PARAMETER)
        for call in calls
        for name in call.operands
        if name.startswith(PARAMETER)
    )
    return BlockPattern(
        kind=kind,
        inputs=inputs,
        outputs=outputs,
        calls=calls,
        types=tuple(
            (name, found.resolve(scope.sizes))
            for name, found in reader.types.items()
            if found
        ),
        parameters=parameters,
        layered=any(LAYER in name for name in parameters)
        or any(call.layered for call in calls),
        instances=tuple(item.instance for item in reader.bound),
    )


def read_type(
    node: Node, scope: Scope, errors: list[ManifestError]
) -> SymbolicType | None:
    """Return the tensor type of a text node; its dims must be declared."""
    found, before = parse_type(node.text), len(errors)
    for dim in found.shape:
        known_dim(dim, node, scope, errors)
    if len(errors) > before:
        return None
    sizes = {name: Product.of(size) for name, size in scope.fixed.items()}
    return found.substitute(sizes)


def known_dim(
    dim: Product, node: Node, scope: Scope, errors: list[ManifestError]
) -> None:
    """Add an error for each part of a dim that is not declared, or not static."""
    for name in dict.fromkeys(dim.names):
        if name not in scope.sizes:
            hint = did_you_mean(name, list(scope.sizes), "dims")
            errors.append(node.error(f"no dim named '{name}'", hint))
        elif scope.sizes[name] is None and str(dim) != name:
            message = f"'{name}' stays dynamic and cannot be part of '{dim}'"
            errors.append(node.error(message))


class _Nodes:
    """The nodes of one block, read from top to bottom."""

    def __init__(
        self,
        nodes: tuple[Node, ...],
        scope: Scope,
        find: Find,
        errors: list[ManifestError],
        types: Types,
    ) -> None:
        self.nodes = nodes
        self.scope = scope
        self.find = find
        self.errors = errors
        self.types = types  # of the values so far: inputs at first
        self.bound: list[Bound] = []
        self.definitions = {name: node for node in nodes for name in result_names(node)}

    def calls(self) -> tuple[Call, ...]:
        """Return the calls of all nodes that are right."""
        calls = []
        for node in self.nodes:
            call, types = self.call(node)
            if call:
                calls.append(call)
            for name, found in zip(result_names(node), types, strict=True):
                if name in self.types:
                    message = f"'{name}' is defined twice in this block"
                    self.errors.append(node["name"].error(message))
                self.types[name] = found
        return tuple(calls)

    def call(self, node: Node) -> tuple[Call | None, tuple[SymbolicType | None, ...]]:
        """Return the node's call and the types of its results."""
        unknown = (None,) * len(result_names(node))
        operands = {
            name: Given(entry, f"'{entry.text}'", self.value(entry, node))
            for name, entry in entries(node, "operands").items()
        }
        parameters = {
            name: Given(entry, f"'{entry.text}'", self.parameter(entry))
            for name, entry in entries(node, "parameters").items()
        }
        signature = self.find(node["uses"])
        if signature is None:
            return None, unknown
        tensors = parameters | operands
        bound = bind(node, signature, tensors, self.scope, self.errors)
        if bound is None:
            return None, unknown
        if len(bound.results) != len(unknown):
            message = f"'{signature.component}' has {len(bound.results)} results"
            self.errors.append(node["uses"].error(message, "name them under results"))
            return None, unknown
        self.bound.append(bound)
        call = Call(
            name=node["name"].text,
            instance=bound.instance.name,
            operands=tuple(
                tensors[item.name].node.text
                if item.name in operands
                else PARAMETER + self.served_by(tensors[item.name].node.text)
                for item in bound.instance.arguments
            ),
            scalars=bound.scalars,
            results=result_names(node),
            layered=bound.layered,
        )
        return call, bound.results

    def value(self, entry: Node, user: Node | None = None) -> SymbolicType | None:
        """Return the type of a value that is used; report one not defined yet."""
        name = entry.text
        if name in self.types:
            return self.types[name]
        if user is not None and name in self.definitions:
            self.errors.append(self.too_early(entry, user))
            return None
        known = [*self.types, *self.definitions]
        hint = did_you_mean(name, list(dict.fromkeys(known)), "values")
        if name in self.scope.parameters:
            hint = "parameters are named under 'parameters'"
        self.errors.append(entry.error(f"no value named '{name}' in this block", hint))
        return None

    def too_early(self, entry: Node, user: Node) -> ManifestError:
        """Return why a value cannot be used above its definition."""
        name = entry.text
        way = self.way(name, user["name"].text, ())
        if way:
            cycle = " -> ".join((user["name"].text, *way))
            return entry.error("a cycle: a value cannot depend on itself", cycle)
        line = self.definitions[name].position.line
        hint = f"move the node that defines it, at line {line}, up"
        return entry.error(f"'{name}' is used before it is defined", hint)

    def way(self, start: str, goal: str, seen: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values from `start`, by what each depends on, to `goal`."""
        if start == goal:
            return (start,)
        node = self.definitions.get(start)
        if node is None or start in seen:
            return ()
        for entry in entries(node, "operands").values():
            if rest := self.way(entry.text, goal, (*seen, start)):
                return (start, *rest)
        return ()

    def served_by(self, parameter: str) -> str:
        """Return the parameter that holds this one's values."""
        return self.scope.tied.get(parameter, parameter)

    def parameter(self, entry: Node) -> SymbolicType | None:
        """Return the type of a parameter that is used; report an undeclared one."""
        if entry.text not in self.scope.parameters:
            known = list(self.scope.parameters)
            hint = did_you_mean(entry.text, known, "parameters")
            message = f"no parameter named '{entry.text}'"
            self.errors.append(entry.error(message, hint))
        return self.scope.parameters.get(entry.text)


def result_names(node: Node) -> tuple[str, ...]:
    """Return the names of the values that a node defines: its own, if it names none."""
    results = node.get("results")
    if results is None:
        return (node["name"].text,)
    return tuple(item.text for item in results.items)


def _refuse_unused(node: Node, errors: list[ManifestError]) -> None:
    """Add an error for each value of a block that nothing takes."""
    used = {entry.text for entry in node["outputs"].entries.values()}
    for item in node["nodes"].items:
        used.update(entry.text for entry in entries(item, "operands").values())
    for name in node["inputs"].entries:
        if name not in used:
            message = f"input '{name}' is used by nothing"
            errors.append(node["inputs"].key_error(name, message))
    for item in node["nodes"].items:
        for name in result_names(item):
            if name not in used:
                message = f"value '{name}' is used by nothing"
                errors.append(item["name"].error(message))
