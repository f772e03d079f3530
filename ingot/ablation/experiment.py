"""Compute the error of every block in every mode, for a graph and a prompt.

The oracles run block by block, in parallel: once exactly, and once per mode with its
rounding. A block also runs alone with the exact values as inputs, which separates the
error that it adds from the error that it receives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.ablation.measure import Agreement, Error, agreement, error, relative_error
from ingot.ablation.modes import Mode
from ingot.model.graph import Block, EntryPoint, Graph
from ingot.model.oracle import Oracle, run_block
from ingot.model.shapes import TensorType

Array: TypeAlias = Any
Values = dict[str, Array]

EXACT = Mode("exact", {})


@dataclass(frozen=True, slots=True)
class Subject:
    """The model and the inputs of an experiment."""

    graph: Graph
    entry: EntryPoint
    oracles: Mapping[str, Oracle]
    parameters: Mapping[str, Array]
    inputs: tuple[Array, ...]  # of one sequence, in the order of the entry point


@dataclass(frozen=True, slots=True)
class Row:
    """The distance between a mode's value after a block and the exact value."""

    mode: str
    block: str
    value: str
    error: Error
    # RMS error divided by RMS value, of the block with exact inputs; or not measured.
    own_error: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """Every block's rows in the order of the model, and the agreement of the logits."""

    rows: tuple[Row, ...]
    agreements: Mapping[str, Agreement]  # by mode; empty if there are no logits

    def last(self, mode: str) -> Row:
        """Return the row of the model's result."""
        return next(row for row in reversed(self.rows) if row.mode == mode)

    def most_error(self, mode: str) -> Row:
        """Return the row of the block that adds most error itself."""
        rows = [row for row in self.rows if row.mode == mode]
        return max(rows, key=lambda row: row.own_error or 0.0)


def measure(
    subject: Subject,
    modes: tuple[Mode, ...],
    alone: bool = True,
    tell: Callable[[str], None] = lambda block: None,
) -> Measured:
    """Return every block's error in every mode; `alone` also measures its own error.

    `tell` is called with each block's name before the block runs.
    """
    entry = subject.entry
    ports = [port.value for port in entry.inputs]
    start = dict(zip(ports, subject.inputs, strict=True))
    values = {mode.name: dict(start) for mode in (EXACT, *modes)}
    rows: list[Row] = []
    for index, block in enumerate(entry.blocks):
        tell(block.name)
        if index == _first_after_prompt(entry):
            for of_mode in values.values():
                _at_every_position(entry, index, of_mode)
        exact = values[EXACT.name]
        given = dict(exact)
        exact.update(_run(subject, EXACT, block, (given,))[0])
        for mode in modes:
            fed = (values[mode.name], given) if alone else (values[mode.name],)
            got = _run(subject, mode, block, fed)
            values[mode.name].update(got[0])
            rows += _rows(entry, block, mode, exact, got)
    return Measured(tuple(rows), dict(_agreements(entry, modes, values)))


def _run(
    subject: Subject, mode: Mode, block: Block, fed: tuple[Values, ...]
) -> list[Values]:
    """Return what the block computes from each set of values, in one mode."""
    parameters = {
        name: mode.parameter(name, subject.parameters[name])
        for name in block.parameters
    }
    oracles = {call.instance: subject.oracles[call.instance] for call in block.calls}
    narrow = {name: mode.oracle(oracle) for name, oracle in oracles.items()}
    made = []
    for values in fed:
        inputs = tuple(values[name] for _, name in block.inputs)
        outputs = run_block(subject.graph, narrow, block, inputs, parameters)
        names = (name for name, _ in block.outputs)
        made.append(dict(zip(names, outputs, strict=True)))
    return made


def _rows(
    entry: EntryPoint, block: Block, mode: Mode, exact: Values, got: list[Values]
) -> Iterator[Row]:
    for name in entry.traced()[block.name]:
        own = relative_error(exact[name], got[1][name]) if len(got) > 1 else None
        found = error(exact[name], got[0][name])
        yield Row(mode.name, block.name, name, found, own)


def _first_after_prompt(entry: EntryPoint) -> int | None:
    """Return the first block that sees only the position `last`."""
    last = {port.value for port in entry.inputs if port.role == "last_index"}
    for index, block in enumerate(entry.blocks):
        if any(name in last for _, name in block.inputs):
            return index
    return None


def _at_every_position(entry: EntryPoint, first: int, values: Values) -> None:
    """Return a batch of one sequence, in which each row asks for another position.

    The earlier blocks process one sequence; the later ones then compute the logits of
    all positions, although the entry point returns those of the last position only.
    """
    import numpy as np

    lasts = {port.value for port in entry.inputs if port.role == "last_index"}
    seq = int(max(values[name].max() for name in lasts)) + 1
    for name, kind in _taken(entry, first).items():
        if name in lasts:
            values[name] = np.arange(seq, dtype=values[name].dtype)
        elif name in values and "batch" in kind.shape:
            axis = kind.shape.index("batch")
            values[name] = np.repeat(values[name], seq, axis)


def _taken(entry: EntryPoint, first: int) -> dict[str, TensorType]:
    """Return the values that the blocks from `first` on take, and their types."""
    found: dict[str, TensorType] = {}
    for block in entry.blocks[first:]:
        types = dict(block.types)
        for formal, name in block.inputs:
            found.setdefault(name, types[formal])
    return found


def _agreements(
    entry: EntryPoint, modes: tuple[Mode, ...], values: Mapping[str, Values]
) -> Iterator[tuple[str, Agreement]]:
    for port in entry.outputs:
        if port.role == "logits":
            exact = values[EXACT.name][port.value]
            for mode in modes:
                yield mode.name, agreement(exact, values[mode.name][port.value])
