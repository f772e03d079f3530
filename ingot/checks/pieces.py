"""Compare the pieces of a model with the oracles: its components, blocks and chains.

Each level answers its own question: is a kernel wrong (component), is a block wrong
when its inputs are right (block), and how far does the error grow along the model
(propagated). All of them call modules that were compiled as the target's own vmfb.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.checks.cases import as_element, np_rng, resampled, shuffled
from ingot.checks.compare import Place, Row, compare
from ingot.checks.float32_oracle import in_float32, lost, n_sample, side_by_side
from ingot.checks.oracle_runs import BlockCall, ChainCall, ComponentCall, Recorded
from ingot.checks.padding import real_of
from ingot.model.graph import PARAMETER, Block, EntryPoint, Graph
from ingot.model.oracle import Oracle, run_block, run_instance
from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance
from ingot.runtime.calls import call
from ingot.runtime.invoke import Call, Module

Array: TypeAlias = Any

# The number of samples that give the scale of a component's single number.
N_DRAWN = 15


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a model to check, and the references to check it with."""

    graph: Graph  # the part alone
    oracles: Mapping[str, Oracle]
    parameters: Mapping[str, Array]
    runner: Runner
    tolerance: Tolerance


def component_rows(
    piece: Piece, module: Module, recorded: Iterable[Recorded]
) -> Iterator[Row]:
    """Yield the rows of every recorded call of the instances."""
    for recording in recorded:
        for use in recording.calls(ComponentCall):
            yield from _component(piece, module, use, recording)


def block_rows(piece: Piece, module: Module, recorded: Recorded) -> Iterator[Row]:
    """Yield the rows of every recorded call of the piece's blocks."""
    blocks = {
        (entry.name, block.name): block
        for entry in piece.graph.entry_points
        for block in entry.blocks
    }
    for use in recorded.calls(BlockCall):
        block = blocks.get((use.entry_point, use.block))
        if block is None:
            # Another piece has the blocks of this form in another entry point.
            continue
        values = [recorded.array(name) for name in use.inputs]
        inputs = _as_declared(block, values)
        # The oracle gets the inputs as the target receives them, because their rounding
        # is not the target's error.
        types, count = dict(block.types), n_sample(use.sizes)
        formals = (types[name] for name, _ in block.inputs)
        several = side_by_side([*zip(formals, inputs, strict=True)], count)
        expected, narrow = (
            run_block(piece.graph, oracles, block, given, piece.parameters)
            for oracles, given in (
                (piece.oracles, inputs),
                (in_float32(piece.oracles), several),
            )
        )
        got = _call_block(piece, module, use.entry_point, block, inputs)
        for (value, inner), wanted, less, found in zip(
            block.outputs, expected, narrow, got, strict=True
        ):
            place = Place("block", block.name, use.entry_point, use.sizes, value)
            real = real_of(use.padding, types[inner], wanted)
            loss = lost(types[inner], wanted, less, count)
            yield compare(place, wanted, found, piece.tolerance, real, loss)


def chain_rows(
    piece: Piece, modules: Mapping[str, Module], recorded: Recorded
) -> Iterator[Row]:
    """Yield the rows of all blocks, each with the target's results of earlier ones.

    `modules` has the module of each block.
    """
    entries = {entry.name: entry for entry in piece.graph.entry_points}
    for use in recorded.calls(ChainCall):
        yield from _chain(piece, modules, entries[use.entry_point], use, recorded)


def _component(
    piece: Piece, module: Module, use: ComponentCall, recorded: Recorded
) -> Iterator[Row]:
    import numpy as np

    instance = piece.graph.instance(use.instance)
    operands = tuple(
        recorded.array(array)
        if array
        else piece.parameters[name.removeprefix(PARAMETER)]
        for name, array in zip(use.operands, use.arrays, strict=True)
    )
    rng = np_rng(use.instance, *use.seed)
    tensors, expected, losses = _drawn(piece, use, operands, rng, shuffled)
    drawn = [losses]
    if any(value.size == 1 for value in expected):
        # One number may be right by chance; others tell what float32 usually loses.
        drawn += [
            _drawn(piece, use, operands, rng, resampled)[2] for _ in range(N_DRAWN)
        ]
    what = Call(f"component.{use.instance}", tensors, use.scalars, len(expected))
    got = call(piece.runner, module, what)
    for index, result in enumerate(instance.results):
        place = Place(
            "component", use.instance, use.entry_point, use.sizes, result.name
        )
        real = real_of(use.padding, result.type, expected[index])
        loss = np.max([values[index] for values in drawn], axis=0)
        yield compare(place, expected[index], got[index], piece.tolerance, real, loss)


def _drawn(
    piece: Piece,
    use: ComponentCall,
    operands: tuple[Array, ...],
    rng: Any,
    draw: Callable[[str, Array, str, Any], Array],
) -> tuple[tuple[Array, ...], tuple[Array, ...], tuple[Array, ...]]:
    """Return tensors like the operands, the results, and what float32 loses of them."""
    instance = piece.graph.instance(use.instance)
    tensors = tuple(
        draw(name, operand, argument.type.element, rng)
        for name, operand, argument in zip(
            use.operands, operands, instance.arguments, strict=True
        )
    )
    oracle, count = piece.oracles[use.instance], n_sample(use.sizes)
    types = (argument.type for argument in instance.arguments)
    several = side_by_side([*zip(types, tensors, strict=True)], count)
    wide = run_instance(instance, oracle, tensors, use.scalars)
    (narrowed,) = in_float32({use.instance: oracle}).values()
    narrow = run_instance(instance, narrowed, several, use.scalars)
    results = zip(instance.results, wide, narrow, strict=True)
    losses = (lost(result.type, exact, less, count) for result, exact, less in results)
    return tensors, wide, tuple(losses)


def _chain(
    piece: Piece,
    modules: Mapping[str, Module],
    entry: EntryPoint,
    use: ChainCall,
    recorded: Recorded,
) -> Iterator[Row]:
    values = {
        port.value: recorded.array(name)
        for port, name in zip(entry.inputs, use.inputs, strict=True)
    }
    for block, expected, losses in zip(
        entry.blocks, use.outputs, use.losses, strict=True
    ):
        inputs = tuple(values[value] for _, value in block.inputs)
        got = _call_block(piece, modules[block.name], entry.name, block, inputs)
        types = dict(block.types)
        for (value, inner), name, loss, found in zip(
            block.outputs, expected, losses, got, strict=True
        ):
            values[value] = found
            # An error in a cache shows in the values that are read from it.
            if name:
                place = Place("propagated", block.name, entry.name, use.sizes, value)
                real = real_of(use.padding, types[inner], found)
                wanted, most = recorded.array(name), recorded.array(loss)
                yield compare(place, wanted, found, piece.tolerance, real, most)


def _call_block(
    piece: Piece, module: Module, entry: str, block: Block, inputs: tuple[Array, ...]
) -> tuple[Array, ...]:
    what = Call(f"block.{entry}.{block.name}", inputs, (), len(block.outputs))
    return call(piece.runner, module, what)


def _as_declared(block: Block, inputs: Iterable[Array]) -> tuple[Array, ...]:
    """Return a block's inputs in the element types that it takes."""
    types = dict(block.types)
    return tuple(
        as_element(value, types[name].element)
        for (name, _), value in zip(block.inputs, inputs, strict=True)
    )
