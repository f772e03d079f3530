"""Resolve a block of an architecture to its calls, with every type known.

A block is resolved once, with `{layer}` still in the names of its parameters; each
layer is then a copy of it under another number. A node that calls another block becomes
the calls of that block, so the graph has one level.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import BlockSection, NodeSection
from ingot.model.bind import LAYER, GivenTensor, Scope, bind
from ingot.model.component import ComponentSignature
from ingot.model.graph import PARAMETER, Call, Instance, parameters_of
from ingot.model.schema_types import Place
from ingot.model.shapes import Product, SymbolicType, TensorType, parse_type
from ingot.model.variants import check_call, fill
from ingot.model.yaml_nodes import collected

# Before the name of a block that a node uses.
BLOCK = "block:"

Types = dict[str, SymbolicType | None]
"""Values by name; None where the definition is wrong and was reported."""


@dataclass(frozen=True, slots=True)
class BlockPattern:
    """A block with `{layer}` in it."""

    kind: str
    inputs: Mapping[str, SymbolicType | None]
    outputs: Mapping[str, tuple[str, SymbolicType | None]]  # name: (value, type)
    calls: tuple[Call, ...]  # empty where anything is wrong
    values: Types  # the type of each value, inputs first
    types: tuple[tuple[str, TensorType], ...]  # of all values that are right
    parameters: tuple[str, ...]  # that the calls take, with {layer}
    instances: tuple[Instance, ...]

    @property
    def is_layered(self) -> bool:
        """Return whether anything in it depends on the layer."""
        by_number = any(call.layered for call in self.calls)
        return by_number or any(LAYER in name for name in self.parameters)


def resolve_block(kind: str, scope: Scope) -> BlockPattern:
    """Return a block of the scope, and report what is wrong with it."""
    return _resolve((kind,), scope.blocks[kind], scope)


def _resolve(way: tuple[str, ...], block: BlockSection, scope: Scope) -> BlockPattern:
    """Return a block; `way` has the blocks that call each other, and itself last."""
    before = len(scope.errors)
    inputs = {
        name: read_type(text, block.at.part(f"inputs.{name}"), scope)
        for name, text in block.inputs.items()
    }
    reader = _Nodes(block.nodes, scope, way, {**inputs})
    calls = reader.calls()
    outputs = {
        name: (value, reader.value(value, block.at.part(f"outputs.{name}")))
        for name, value in block.outputs.items()
    }
    if len(scope.errors) == before:
        scope.errors.extend(_unused(block))
    types = ((k, x.resolve(scope.sizes)) for k, x in reader.types.items() if x)
    return BlockPattern(
        kind=way[-1],
        inputs=inputs,
        outputs=outputs,
        calls=calls,
        values=reader.types,
        types=tuple(types),
        parameters=parameters_of(calls),
        instances=tuple(reader.instances),
    )


def read_type(text: str, at: Place, scope: Scope) -> SymbolicType | None:
    """Return the tensor type that is written; its dims must be declared."""
    found, before = parse_type(text), len(scope.errors)
    for dim in found.shape:
        known_dim(dim, at, scope)
    if len(scope.errors) > before:
        return None
    sizes = {name: Product.of(size) for name, size in scope.fixed.items()}
    return found.substitute(sizes)


def known_dim(dim: Product, at: Place, scope: Scope) -> None:
    """Report each part of a dim that is not declared, or not static."""
    for name in dict.fromkeys(dim.names):
        if name not in scope.sizes:
            hint = did_you_mean(name, list(scope.sizes), "dims")
            scope.error(at, f"no dim named '{name}'", hint)
        elif scope.sizes[name] is None and str(dim) != name:
            scope.error(at, f"'{name}' stays dynamic and cannot be part of '{dim}'")


class _Nodes:
    """The nodes of one block, read from top to bottom."""

    def __init__(
        self,
        nodes: tuple[NodeSection, ...],
        scope: Scope,
        way: tuple[str, ...],
        types: Types,
    ) -> None:
        self.nodes = nodes
        self.scope = scope
        self.way = way
        self.types = types  # of the values so far: inputs at first
        self.instances: list[Instance] = []
        self.definitions = {name: node for node in nodes for name in node.values}
        self.inner: dict[str, str] = {}  # values inside called blocks: the block

    def calls(self) -> tuple[Call, ...]:
        """Return the calls of all nodes that are right."""
        calls: list[Call] = []
        for node in self.nodes:
            if node.uses.startswith(BLOCK):
                made, values = self.block_call(node)
                calls += made
            else:
                call, types = self.call(node)
                calls += [call] if call else []
                values = [*zip(node.values, types, strict=True)]
            for name, found in values:
                if name in self.types:
                    self.defined_twice(name, node)
                self.types[name] = found
        return tuple(calls)

    def defined_twice(self, name: str, node: NodeSection) -> None:
        """Report a node that defines a value again."""
        if name in node.values:
            message = f"'{name}' is defined twice in this block"
            self.scope.error(node.at.part("name"), message)
            return
        kind = node.uses.removeprefix(BLOCK)
        message = f"'{name}' inside block '{kind}' is defined in this block already"
        hint = "give this node a 'prefix' for such names"
        self.scope.error(node.at.part("uses"), message, hint)

    def block_call(
        self, node: NodeSection
    ) -> tuple[list[Call], list[tuple[str, SymbolicType | None]]]:
        """Return the calls of the block that a node calls, and all values' types."""
        names = node.values
        wrong: list[tuple[str, SymbolicType | None]] = [(name, None) for name in names]
        pattern = self.called(node)
        if pattern is None or not self.fits(node, pattern):
            return [], wrong
        if len(pattern.outputs) != len(names):
            count = len(pattern.outputs)
            message = f"block '{pattern.kind}' has {count} output{'s'[: count != 1]}"
            message = f"{message}, this node has {len(names)}"
            self.scope.error(node.at.part("uses"), message, "name them under results")
            return [], wrong
        prefix = node.prefix
        made = [value for value in pattern.values if value not in pattern.inputs]
        new = {value: prefix + value for value in made}
        for (value, _), name in zip(pattern.outputs.values(), names, strict=True):
            new[value] = name
        self.inner |= {name: pattern.kind for name in new.values() if name not in names}
        self.instances += pattern.instances
        old = {name: node.operands[name] for name in pattern.inputs}
        calls = [_renamed(call, prefix, new | old) for call in pattern.calls]
        return calls, [(new[value], pattern.values[value]) for value in made]

    def called(self, node: NodeSection) -> BlockPattern | None:
        """Return the block that a node calls, with its `$names` filled in."""
        kind, at = node.uses.removeprefix(BLOCK), node.at.part("uses")
        blocks, errors = self.scope.blocks, self.scope.errors
        if kind not in blocks:
            hint = did_you_mean(kind, list(blocks), "blocks")
            self.scope.error(at, f"no block named '{kind}'", hint)
            return None
        if kind in self.way:
            message = "a cycle: a block cannot call itself"
            self.scope.error(at, message, " -> ".join((*self.way, kind)))
            return None
        before = len(errors)
        errors.extend(check_call(kind, blocks[kind], node))
        if len(errors) > before:
            return None
        filled = fill(blocks[kind], {**node.parameters, **node.attributes})
        pattern = _resolve((*self.way, kind), filled, self.scope)
        values = [value for value, _ in pattern.outputs.values()]
        for name, (value, _) in pattern.outputs.items():
            if value in pattern.inputs or values.count(value) > 1:
                message = f"output '{name}' of block '{kind}' has no value of its own"
                self.scope.error(at, message, "only a step can call it")
                return None
        return pattern

    def fits(self, node: NodeSection, pattern: BlockPattern) -> bool:
        """Return whether a node gives a block what it takes; report if not."""
        before = len(self.scope.errors)
        for name, value in node.operands.items():
            at = node.at.part(f"operands.{name}")
            found = self.value(value, at, node)
            check_input(pattern, name, value, found, node.at, self.scope)
        for name in pattern.inputs:
            if name not in node.operands:
                message = f"input '{name}' of block '{pattern.kind}' is missing"
                at = node.at.part("uses")
                self.scope.error(at, message, "give it under operands")
        return len(self.scope.errors) == before

    def call(
        self, node: NodeSection
    ) -> tuple[Call | None, tuple[SymbolicType | None, ...]]:
        """Return the node's call and the types of its results."""
        unknown = (None,) * len(node.values)
        operands, parameters = {}, {}
        for name, value in node.operands.items():
            at = node.at.part(f"operands.{name}")
            operands[name] = GivenTensor(value, at, self.value(value, at, node))
        for name, value in node.parameters.items():
            at = node.at.part(f"parameters.{name}")
            parameters[name] = GivenTensor(value, at, self.parameter(value, at))
        if node.prefix:
            message = "only a node that uses a block has a 'prefix'"
            self.scope.error(node.at.part("prefix"), message, "leave it out")
        signature = self.component(node)
        if signature is None:
            return None, unknown
        tensors = parameters | operands
        bound = bind(node, signature, tensors, self.scope)
        if bound is None:
            return None, unknown
        if len(bound.results) != len(unknown):
            message = f"'{signature.component}' has {len(bound.results)} results"
            self.scope.error(node.at.part("uses"), message, "name them under results")
            return None, unknown
        self.instances.append(bound.instance)
        tied = self.scope.tied
        call = Call(
            name=node.name,
            instance=bound.instance.name,
            operands=tuple(
                operands[name].name
                if name in operands
                else PARAMETER + tied.get(parameters[name].name, parameters[name].name)
                for name in (item.name for item in bound.instance.arguments)
            ),
            scalars=bound.scalars,
            results=node.values,
            layered=bound.layered,
        )
        return call, bound.results

    def component(self, node: NodeSection) -> ComponentSignature | None:
        """Return the signature of the component that a node uses; report a wrong one.

        The mistakes of the component itself are reported at its own lines.
        """
        name, components = node.uses, self.scope.components
        if not components.has(name):
            self.scope.error(node.at.part("uses"), *components.unknown(name))
            return None
        with collected(self.scope.errors):
            return components.read(name)
        return None

    def value(
        self, name: str, at: Place, user: NodeSection | None = None
    ) -> SymbolicType | None:
        """Return the type of a value that is used; report one not defined yet."""
        if name in self.inner:
            message = f"'{name}' is inside block '{self.inner[name]}'"
            hint = "make it an output of that block, or write its nodes here"
            self.scope.error(at, message, hint)
            return None
        if name in self.types:
            return self.types[name]
        if user is not None and name in self.definitions:
            self.too_early(name, at, user)
            return None
        known = [*self.types, *self.definitions]
        hint = did_you_mean(name, list(dict.fromkeys(known)), "values")
        if name in self.scope.parameters:
            hint = "parameters are named under 'parameters'"
        self.scope.error(at, f"no value named '{name}' in this block", hint)
        return None

    def too_early(self, name: str, at: Place, user: NodeSection) -> None:
        """Report why a value cannot be used above its definition."""
        if path := self.path(name, user.name, ()):
            cycle = " -> ".join((user.name, *path))
            self.scope.error(at, "a cycle: a value cannot depend on itself", cycle)
            return
        line = self.definitions[name].at.position().line
        hint = f"move the node that defines it, at line {line}, up"
        self.scope.error(at, f"'{name}' is used before it is defined", hint)

    def path(self, start: str, goal: str, seen: tuple[str, ...]) -> tuple[str, ...]:
        """Return the values from `start`, by what each depends on, to `goal`."""
        if start == goal:
            return (start,)
        node = self.definitions.get(start)
        if node is None or start in seen:
            return ()
        for value in node.operands.values():
            if rest := self.path(value, goal, (*seen, start)):
                return (start, *rest)
        return ()

    def parameter(self, name: str, at: Place) -> SymbolicType | None:
        """Return the type of a parameter that is used; report an undeclared one."""
        if name not in self.scope.parameters:
            hint = did_you_mean(name, list(self.scope.parameters), "parameters")
            self.scope.error(at, f"no parameter named '{name}'", hint)
        return self.scope.parameters.get(name)


def check_input(
    pattern: BlockPattern,
    name: str,
    value: str,
    found: SymbolicType | None,
    caller: Place,
    scope: Scope,
) -> None:
    """Report where a value cannot be the block's input of that name."""
    if name not in pattern.inputs:
        hint = did_you_mean(name, list(pattern.inputs), "inputs")
        message = f"block '{pattern.kind}' has no input '{name}'"
        scope.errors.append(caller.key_error("operands", name, message, hint))
        return
    wanted = pattern.inputs[name]
    if found and wanted and found != wanted:
        message = f"'{value}' does not fit block '{pattern.kind}'"
        message = f"{message}; expected {wanted}, found {found}"
        scope.error(caller.part(f"operands.{name}"), message)


def _renamed(call: Call, prefix: str, names: Mapping[str, str]) -> Call:
    """Return a call of a called block under the names of the block that calls it."""
    return replace(
        call,
        name=prefix + call.name,
        # A parameter's name is among none.
        operands=tuple(names.get(item, item) for item in call.operands),
        results=tuple(names[item] for item in call.results),
    )


def _unused(block: BlockSection) -> Iterator[ManifestError]:
    """Yield each value of a block that nothing takes."""
    used = {*block.outputs.values()}
    for node in block.nodes:
        used.update(node.operands.values())
    for name in block.inputs:
        if name not in used:
            message = f"nothing uses input '{name}'"
            yield block.at.key_error("inputs", name, message)
    for node in block.nodes:
        for name in node.values:
            if name not in used:
                yield node.at.error("name", f"nothing uses value '{name}'")
