"""Resolve a block of an architecture to its calls, with every type known.

A block is resolved once, with `{layer}` still in the names of its parameters; each
layer is then a copy of it under another number. A node that calls another block becomes
the calls of that block: the graph does not show that they were written elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import BlockSection, NodeSection
from ingot.model.bind import LAYER, Given, Report, Scope, bind
from ingot.model.component import ComponentSignature
from ingot.model.dims import Product
from ingot.model.graph import PARAMETER, Call, Instance, TensorType, parameters_of
from ingot.model.shapes import SymbolicType, parse_type
from ingot.model.variants import fill

# Before the name of a block that a node uses.
BLOCK = "block:"

Types = dict[str, SymbolicType | None]
"""Values by name; None where the definition is wrong and was reported."""

Find = Callable[[str, Report], ComponentSignature | None]
"""Gives the signature of the component that a node names, or reports that none is."""


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
    layered: bool  # whether anything in it depends on the layer
    instances: tuple[Instance, ...]


def resolve_block(
    kind: str,
    blocks: Mapping[str, BlockSection],
    scope: Scope,
    find: Find,
    errors: list[ManifestError],
) -> BlockPattern:
    """Return one of the blocks, and add defects to the errors."""
    return _resolve((kind,), blocks[kind], _Around(blocks, scope, find), errors)


@dataclass(frozen=True, slots=True)
class _Around:
    """What the nodes of all blocks may name."""

    blocks: Mapping[str, BlockSection]
    scope: Scope
    find: Find


def _resolve(
    way: tuple[str, ...],
    block: BlockSection,
    around: _Around,
    errors: list[ManifestError],
) -> BlockPattern:
    """Return a block; `way` has the blocks that call each other, and itself last."""
    before, scope = len(errors), around.scope
    inputs = {
        name: read_type(text, partial(block.at.error, f"inputs.{name}"), scope, errors)
        for name, text in block.inputs.items()
    }
    reader = _Nodes(block.nodes, around, way, errors, {**inputs})
    calls = reader.calls()
    outputs = {
        name: (value, reader.value(value, partial(block.at.error, f"outputs.{name}")))
        for name, value in block.outputs.items()
    }
    if len(errors) == before:
        errors += _unused(block)
    parameters = parameters_of(calls)
    return BlockPattern(
        kind=way[-1],
        inputs=inputs,
        outputs=outputs,
        calls=calls,
        values=reader.types,
        types=tuple(
            (name, found.resolve(scope.sizes))
            for name, found in reader.types.items()
            if found
        ),
        parameters=parameters,
        layered=any(LAYER in name for name in parameters)
        or any(call.layered for call in calls),
        instances=tuple(reader.instances),
    )


def read_type(
    text: str, error: Report, scope: Scope, errors: list[ManifestError]
) -> SymbolicType | None:
    """Return the tensor type that is written; its dims must be declared."""
    found, before = parse_type(text), len(errors)
    for dim in found.shape:
        known_dim(dim, error, scope, errors)
    if len(errors) > before:
        return None
    sizes = {name: Product.of(size) for name, size in scope.fixed.items()}
    return found.substitute(sizes)


def known_dim(
    dim: Product,
    error: Report,
    scope: Scope,
    errors: list[ManifestError],
) -> None:
    """Add an error for each part of a dim that is not declared, or not static."""
    for name in dict.fromkeys(dim.names):
        if name not in scope.sizes:
            hint = did_you_mean(name, list(scope.sizes), "dims")
            errors.append(error(f"no dim named '{name}'", hint))
        elif scope.sizes[name] is None and str(dim) != name:
            message = f"'{name}' stays dynamic and cannot be part of '{dim}'"
            errors.append(error(message))


class _Nodes:
    """The nodes of one block, read from top to bottom."""

    def __init__(
        self,
        nodes: tuple[NodeSection, ...],
        around: _Around,
        way: tuple[str, ...],
        errors: list[ManifestError],
        types: Types,
    ) -> None:
        self.nodes = nodes
        self.around = around
        self.scope = around.scope
        self.way = way
        self.errors = errors
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
                    self.errors.append(self.defined_twice(name, node))
                self.types[name] = found
        return tuple(calls)

    def defined_twice(self, name: str, node: NodeSection) -> ManifestError:
        """Return what is wrong with a node that defines a value once more."""
        if name in node.values:
            message = f"'{name}' is defined twice in this block"
            return node.at.error("name", message)
        kind = node.uses.removeprefix(BLOCK)
        message = f"'{name}' inside block '{kind}' is defined in this block already"
        return node.at.error(
            "uses", message, "give this node a 'prefix' for such names"
        )

    def block_call(
        self, node: NodeSection
    ) -> tuple[list[Call], list[tuple[str, SymbolicType | None]]]:
        """Return the calls of the block that a node calls, and all values' types."""
        names = node.values
        pattern = self.called(node)
        if pattern is None or not self.fits(node, pattern):
            return [], [(name, None) for name in names]
        if len(pattern.outputs) != len(names):
            count = len(pattern.outputs)
            message = f"block '{pattern.kind}' has {count} output{'s'[: count != 1]}"
            message = f"{message}, this node has {len(names)}"
            self.errors.append(
                node.at.error("uses", message, "name them under results")
            )
            return [], [(name, None) for name in names]
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
        kind, error = node.uses.removeprefix(BLOCK), partial(node.at.error, "uses")
        block = self.around.blocks.get(kind)
        if block is None:
            hint = did_you_mean(kind, list(self.around.blocks), "blocks")
            self.errors.append(error(f"no block named '{kind}'", hint))
            return None
        if kind in self.way:
            message = "a circle: a block cannot call itself"
            self.errors.append(error(message, " -> ".join((*self.way, kind))))
            return None
        before = len(self.errors)
        filled = fill(kind, block, node, self.errors)
        if len(self.errors) > before:
            return None
        pattern = _resolve((*self.way, kind), filled, self.around, self.errors)
        values = [value for value, _ in pattern.outputs.values()]
        for name, (value, _) in pattern.outputs.items():
            if value in pattern.inputs or values.count(value) > 1:
                message = f"output '{name}' of block '{kind}' has no value of its own"
                self.errors.append(error(message, "only a step can call it"))
                return None
        return pattern

    def fits(self, node: NodeSection, pattern: BlockPattern) -> bool:
        """Return whether a node gives a block what it takes; add errors if not."""
        before = len(self.errors)
        for name, value in node.operands.items():
            report = partial(node.at.error, f"operands.{name}")
            found = self.value(value, report, node)
            if name not in pattern.inputs:
                hint = did_you_mean(name, list(pattern.inputs), "inputs")
                message = f"block '{pattern.kind}' has no input '{name}'"
                error = node.at.key_error("operands", name, message, hint)
                self.errors.append(error)
                continue
            wanted = pattern.inputs[name]
            if found and wanted and found != wanted:
                message = f"'{value}' does not fit block '{pattern.kind}'"
                message = f"{message}; expected {wanted}, found {found}"
                self.errors.append(report(message))
        for name in pattern.inputs.keys() - node.operands.keys():
            message = f"input '{name}' of block '{pattern.kind}' is missing"
            self.errors.append(node.at.error("uses", message, "give it under operands"))
        return len(self.errors) == before

    def call(
        self, node: NodeSection
    ) -> tuple[Call | None, tuple[SymbolicType | None, ...]]:
        """Return the node's call and the types of its results."""
        unknown = (None,) * len(node.values)
        operands, parameters = {}, {}
        for name, value in node.operands.items():
            error = partial(node.at.error, f"operands.{name}")
            operands[name] = Given(value, error, self.value(value, error, node))
        for name, value in node.parameters.items():
            error = partial(node.at.error, f"parameters.{name}")
            parameters[name] = Given(value, error, self.parameter(value, error))
        if node.prefix:
            message = "only a node that uses a block has a 'prefix'"
            self.errors.append(node.at.error("prefix", message, "leave it out"))
        signature = self.around.find(node.uses, partial(node.at.error, "uses"))
        if signature is None:
            return None, unknown
        tensors = parameters | operands
        bound = bind(node, signature, tensors, self.scope, self.errors)
        if bound is None:
            return None, unknown
        if len(bound.results) != len(unknown):
            message = f"'{signature.component}' has {len(bound.results)} results"
            self.errors.append(
                node.at.error("uses", message, "name them under results")
            )
            return None, unknown
        self.instances.append(bound.instance)
        call = Call(
            name=node.name,
            instance=bound.instance.name,
            operands=tuple(
                tensors[item.name].name
                if item.name in operands
                else PARAMETER + self.served_by(tensors[item.name].name)
                for item in bound.instance.arguments
            ),
            scalars=bound.scalars,
            results=node.values,
            layered=bound.layered,
        )
        return call, bound.results

    def value(
        self, name: str, error: Report, user: NodeSection | None = None
    ) -> SymbolicType | None:
        """Return the type of a value that is used; report one not defined yet."""
        if name in self.inner:
            message = f"'{name}' is inside block '{self.inner[name]}'"
            hint = "make it an output of that block, or write its nodes here"
            self.errors.append(error(message, hint))
            return None
        if name in self.types:
            return self.types[name]
        if user is not None and name in self.definitions:
            self.errors.append(self.too_early(name, error, user))
            return None
        known = [*self.types, *self.definitions]
        hint = did_you_mean(name, list(dict.fromkeys(known)), "values")
        if name in self.scope.parameters:
            hint = "parameters are named under 'parameters'"
        self.errors.append(error(f"no value named '{name}' in this block", hint))
        return None

    def too_early(self, name: str, error: Report, user: NodeSection) -> ManifestError:
        """Return why a value cannot be used above its definition."""
        path = self.path(name, user.name, ())
        if path:
            cycle = " -> ".join((user.name, *path))
            return error("a cycle: a value cannot depend on itself", cycle)
        line = self.definitions[name].at.position().line
        hint = f"move the node that defines it, at line {line}, up"
        return error(f"'{name}' is used before it is defined", hint)

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

    def served_by(self, parameter: str) -> str:
        """Return the parameter that holds this one's values."""
        return self.scope.tied.get(parameter, parameter)

    def parameter(self, name: str, error: Report) -> SymbolicType | None:
        """Return the type of a parameter that is used; report an undeclared one."""
        if name not in self.scope.parameters:
            hint = did_you_mean(name, list(self.scope.parameters), "parameters")
            self.errors.append(error(f"no parameter named '{name}'", hint))
        return self.scope.parameters.get(name)


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
            message = f"input '{name}' is used by nothing"
            yield block.at.key_error("inputs", name, message)
    for node in block.nodes:
        for name in node.values:
            if name not in used:
                yield node.at.error("name", f"value '{name}' is used by nothing")
