"""Compute a model's graph with the oracles of its components, call by call.

The oracles are NumPy functions, in float64. The check compares the value after any
block with the target's. The oracle shares nothing with the MLIR: neither the emitter
nor the text of the components.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.errors import IngotError
from ingot.model.graph import PARAMETER, Block, Call, EntryPoint, Graph, Instance

Array: TypeAlias = Any
"""A NumPy array. NumPy is imported nowhere here: the values bring their own
operations."""

Oracle = Callable[..., Any]
Parameters = Mapping[str, Array]
Observer = Callable[[Call, tuple[Array, ...]], None]
"""Called with each call and its operands, before it is made."""


@dataclass(frozen=True, slots=True)
class Step:
    """One block of an entry point as the oracle ran it."""

    block: Block
    inputs: tuple[Array, ...]  # in the order of block.inputs
    outputs: tuple[Array, ...]  # in the order of block.outputs


def load_oracles(graph: Graph) -> dict[str, Oracle]:
    """Return the oracle of every instance, by instance name.

    Raises: IngotError when an oracle file has no function of that name.
    """
    oracles: dict[str, Oracle] = {}
    for instance in graph.instances:
        path, function = instance.oracle
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        if not hasattr(module, function):
            raise IngotError(
                f"{path}: no function '{function}', the oracle of {instance.component}"
            )
        oracles[instance.name] = getattr(module, function)
    return oracles


def run_instance(
    instance: Instance,
    oracle: Oracle,
    tensors: tuple[Array, ...],
    scalars: tuple[float | int, ...],
) -> tuple[Array, ...]:
    """Return one component's results.

    The oracle gets tensors, scalars and bound indices by name, and an optional argument
    that is left out not at all.

    Raises: IngotError when the oracle returns another number of results than the
    signature.
    """
    names = [item.name for item in instance.arguments]
    given = dict(zip(names, tensors, strict=True))
    numbers = zip((name for name, _ in instance.scalars), scalars, strict=True)
    returned = oracle(**given, **dict(numbers), **dict(instance.indices))
    results = returned if isinstance(returned, tuple) else (returned,)
    if len(results) != len(instance.results):
        raise IngotError(
            f"{instance.oracle[0]}: {instance.oracle[1]} returned {len(results)} "
            f"results; expected {len(instance.results)}, as {instance.component} does"
        )
    return results


def run_block(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    block: Block,
    inputs: tuple[Array, ...],
    parameters: Parameters,
    observe: Observer | None = None,
) -> tuple[Array, ...]:
    """Return the block's outputs in the order of `block.outputs`."""
    values = dict(zip((name for name, _ in block.inputs), inputs, strict=True))
    instances = {item.name: item for item in graph.instances}
    for call in block.calls:
        operands = tuple(
            parameters[name.removeprefix(PARAMETER)]
            if name.startswith(PARAMETER)
            else values[name]
            for name in call.operands
        )
        if observe is not None:
            observe(call, operands)
        results = run_instance(
            instances[call.instance], oracles[call.instance], operands, call.scalars
        )
        values.update(zip(call.results, results, strict=True))
    return tuple(values[name] for _, name in block.outputs)


def run_entry_point(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    entry: EntryPoint,
    inputs: tuple[Array, ...],
    parameters: Parameters,
    observe: Observer | None = None,
    keep: bool = False,
) -> tuple[tuple[Array, ...], tuple[Step, ...]]:
    """Return the entry point's outputs and, with `keep`, every block as it was run.

    A step of a decoder holds the caches of all layers, and those of a long sequence
    would fill the memory.
    """
    values = dict(zip((port.value for port in entry.inputs), inputs, strict=True))
    steps: list[Step] = []
    for block in entry.blocks:
        block_inputs = tuple(values[name] for _, name in block.inputs)
        outputs = run_block(graph, oracles, block, block_inputs, parameters, observe)
        values.update(zip((name for name, _ in block.outputs), outputs, strict=True))
        if keep:
            steps.append(Step(block, block_inputs, outputs))
    return tuple(values[port.value] for port in entry.outputs), tuple(steps)


def token_limit(graph: Graph, entry: EntryPoint, port: str) -> int | None:
    """Return the exclusive bound of an integer input: the rows that it indexes.

    None when no component reads it as an index into `n_vocab` rows.
    """
    limits = [
        rows
        for block, name in _uses(entry, port)
        for call in block.calls
        if name in call.operands
        if (rows := _table_rows(graph, call))
    ]
    return min(limits, default=None)


def _table_rows(graph: Graph, call: Call) -> int | None:
    """Return the rows of the table that a component looks up in."""
    instance = graph.instance(call.instance)
    if not instance.component.startswith("embedding/"):
        return None
    if rows := dict(instance.dims).get("n_vocab"):
        return rows
    # Stored in groups of rows: the kernel's dims may not tell how many they are.
    taken = {operand.removeprefix(PARAMETER) for operand in call.operands}
    packings = (item.packing for item in graph.parameters if item.name in taken)
    return next((item.shape[0] for item in packings if item), None)


def _uses(entry: EntryPoint, value: str) -> Iterator[tuple[Block, str]]:
    """Yield every block that takes an entry-point value, and its name in the block."""
    for block in entry.blocks:
        for formal, actual in block.inputs:
            if actual == value:
                yield block, formal
