"""Find the range in which each input of an entry point must be.

Components use ids, blocks and positions as indices without checking them, and state
their ranges. An entry point checks its inputs before anything reads them, so its ranges
are those of all components that an input is given to.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.model.graph import Block, Call, EntryPoint, Graph, Instance
from ingot.model.shapes import Limit, Product, parse_dim


def with_limits(graph: Graph) -> Graph:
    """Return the graph with the limits of all inputs of its entry points."""
    entries = tuple(_with_limits(graph, entry) for entry in graph.entry_points)
    return replace(graph, entry_points=entries)


def _with_limits(graph: Graph, entry: EntryPoint) -> EntryPoint:
    found: dict[str, dict[str, Limit]] = {port.name: {} for port in entry.inputs}
    given = {port.value: port.name for port in entry.inputs}
    for block in entry.blocks:
        inputs = {formal: given.get(value) for formal, value in block.inputs}
        for call in block.calls:
            instance = graph.instance(call.instance)
            pairs = zip(call.operands, instance.arguments, strict=True)
            for operand, argument in pairs:
                port = inputs.get(operand)
                if port is not None and argument.limit is not None:
                    limit = _limit(argument.limit, block, call, instance)
                    found[port].setdefault(limit.text, limit)
        for value, _ in block.outputs:
            given.pop(value, None)
    inputs_ = tuple(
        replace(port, limits=tuple(found[port.name].values())) for port in entry.inputs
    )
    return replace(entry, inputs=inputs_)


def _limit(limit: Limit, block: Block, call: Call, instance: Instance) -> Limit:
    """Return a component's limit, over the dynamic dims of the graph."""
    most = _dim(limit.most, block, call, instance)
    less = _dim(limit.less, block, call, instance) if limit.less else None
    if less and not (less.names or most.names):
        most, less = Product.of(most.size - less.size), None
    end = f"{most} - {less}" if less else str(most)
    return Limit(f"[0, {end}{']' if limit.closed else ')'}", most, less, limit.closed)


def _dim(dim: Product, block: Block, call: Call, instance: Instance) -> Product:
    found = Product.of(dim.size)
    sizes, types = dict(instance.dims), dict(block.types)
    for name in dim.names:
        size = sizes[name]
        if size is None:
            place, axis = next(
                (place, axis)
                for place, argument in enumerate(instance.arguments)
                for axis, known in enumerate(argument.type.shape)
                if known == name
            )
            actual = types[call.operands[place]].shape[axis]
            found = found.times(parse_dim(str(actual)))
        else:
            found = found.times(Product.of(size))
    return found
