"""Compare a model's modules with the oracles, at four levels.

Each level answers its own question: is a kernel wrong (component), is a block wrong
when its inputs are right (block), how far does the error grow along the model
(propagated), and is the model right (model). All of them call the target's own vmfb.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.checks.cases import (
    Case,
    as_element,
    block_cases,
    component_cases,
    entry_inputs,
    model_cases,
    np_rng,
    resampled,
    shuffled,
    traced_calls,
)
from ingot.checks.compare import Place, Row, compare
from ingot.model.graph import Block, EntryPoint, Graph
from ingot.model.graph import Call as Use
from ingot.model.oracle import Oracle, Step, run_block, run_entry_point, run_instance
from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance
from ingot.runtime.calls import call
from ingot.runtime.invoke import Call, Module

Array: TypeAlias = Any
Item = Callable[[], list[Row]]
"""One piece of work: a few calls of the target, and their rows."""

# The number of samples among which a component's single number is judged.
N_DRAWN = 15


@dataclass(frozen=True, slots=True)
class Subject:
    """The model to check, and the references to check it with."""

    graph: Graph
    oracles: Mapping[str, Oracle]
    parameters: Mapping[str, Array]
    runner: Runner
    model: Module
    probe: Module
    tolerances: Mapping[str, Tolerance]  # by level


def run_items(items: Iterable[Item]) -> list[Row]:
    """Return the rows of all items, in their order, using every processor.

    Threads are enough, because calls and NumPy release the interpreter's lock.
    """
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        futures = [pool.submit(item) for item in items]
        try:
            return [row for future in futures for row in future.result()]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def component_items(subject: Subject) -> Iterator[Item]:
    """Yield every instance with every set of scalars, once per tensor shapes."""
    seen: set[tuple[Any, ...]] = set()
    graph = subject.graph
    for entry in graph.entry_points:
        for case in component_cases(graph, entry, subject.runner.emulated):
            for use, operands in traced_calls(
                graph, subject.oracles, subject.parameters, entry, case
            ):
                shapes = tuple(operand.shape for operand in operands)
                if (use.instance, use.scalars, shapes) not in seen:
                    seen.add((use.instance, use.scalars, shapes))
                    yield _component(subject, entry, case, use, operands)


def block_items(subject: Subject) -> Iterator[Item]:
    """Yield every block with the oracle's inputs, in the order of the model."""
    for entry in subject.graph.entry_points:
        cases = block_cases(subject.graph, entry)
        traces = [_trace(subject, entry, case)[1] for case in cases]
        for index in _chosen(entry, subject.runner.emulated):
            for case, steps in zip(cases, traces, strict=True):
                yield _isolated(subject, entry, case, steps[index])


def propagated_items(subject: Subject) -> Iterator[Item]:
    """Yield the chain of all blocks, each with the target's own values."""
    for entry in subject.graph.entry_points:
        for case in block_cases(subject.graph, entry):
            yield _chain(subject, entry, case)


def model_items(subject: Subject) -> Iterator[Item]:
    """Yield each entry point against the oracle: one token, padded, the longest."""
    for entry in subject.graph.entry_points:
        for case in model_cases(subject.graph, entry, subject.runner.emulated):
            yield _model(subject, entry, case)


def _chosen(entry: EntryPoint, emulated: bool) -> list[int]:
    """Return the blocks to check alone, in order.

    An emulated target gets the first and the last of each kind, because its calls are
    slow and layers differ only in their weights.
    """
    numbers = range(len(entry.blocks))
    if not emulated:
        return list(numbers)
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index in numbers:
        kind = entry.blocks[index].kind
        first.setdefault(kind, index)
        last[kind] = index
    return sorted({*first.values(), *last.values()})


def first_blocks(graph: Graph) -> dict[str, str]:
    """Return the first block, in the order of the model, that calls each instance."""
    found: dict[str, str] = {}
    for entry in graph.entry_points:
        for block in entry.blocks:
            for use in block.calls:
                found.setdefault(use.instance, f"{block.name} (node {use.name})")
    return found


def _component(
    subject: Subject,
    entry: EntryPoint,
    case: Case,
    use: Use,
    operands: tuple[Array, ...],
) -> Item:
    def item() -> list[Row]:
        import numpy as np

        instance = subject.graph.instance(use.instance)
        rng = np_rng(use.instance, case.batch, case.seq)
        tensors, expected = _drawn(subject, use, operands, rng, shuffled)
        made = [expected]
        if any(value.size == 1 for value in expected):
            # One may be what remains of terms that cancel; others give the scale.
            made += [
                _drawn(subject, use, operands, rng, resampled)[1]
                for _ in range(N_DRAWN)
            ]
        what = Call(f"component.{use.instance}", tensors, use.scalars, len(expected))
        got = call(subject.runner, subject.probe, what)
        rows: list[Row] = []
        for index, result in enumerate(instance.results):
            compared = ((result.name, expected[index], got[index]),)
            typical = np.stack([values[index] for values in made])
            rows += _rows(
                subject, "component", use.instance, entry, case, compared, typical
            )
        return rows

    return item


def _drawn(
    subject: Subject,
    use: Use,
    operands: tuple[Array, ...],
    rng: Any,
    draw: Callable[[str, Array, str, Any], Array],
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return tensors like the operands, and the oracle's results for them."""
    instance = subject.graph.instance(use.instance)
    tensors = tuple(
        draw(name, operand, argument.type.element, rng)
        for name, operand, argument in zip(
            use.operands, operands, instance.arguments, strict=True
        )
    )
    oracle = subject.oracles[use.instance]
    return tensors, run_instance(instance, oracle, tensors, use.scalars)


def _isolated(subject: Subject, entry: EntryPoint, case: Case, step: Step) -> Item:
    def item() -> list[Row]:
        inputs = _as_declared(step.block, step.inputs)
        # Again, with the inputs as the target receives them, because their rounding is
        # not the target's error.
        expected = run_block(
            subject.graph, subject.oracles, step.block, inputs, subject.parameters
        )
        got = _call_block(subject, entry, step.block, inputs)
        values = (name for name, _ in step.block.outputs)
        compared = zip(values, expected, got, strict=True)
        return _rows(subject, "block", step.block.name, entry, case, compared)

    return item


def _chain(subject: Subject, entry: EntryPoint, case: Case) -> Item:
    def item() -> list[Row]:
        inputs, steps = _trace(subject, entry, case)
        values = entry.traced()
        wanted = [
            (step.block.name, name, value)
            for step in steps
            for (name, _), value in zip(step.block.outputs, step.outputs, strict=True)
            if name in values[step.block.name]
        ]
        what = Call(f"trace.{entry.name}", inputs, (), len(wanted))
        got = call(subject.runner, subject.probe, what)
        rows: list[Row] = []
        for (block, name, expected), value in zip(wanted, got, strict=True):
            compared = ((name, expected, value),)
            rows += _rows(subject, "propagated", block, entry, case, compared)
        return rows

    return item


def _model(subject: Subject, entry: EntryPoint, case: Case) -> Item:
    def item() -> list[Row]:
        inputs = entry_inputs(subject.graph, entry, case)
        expected, _ = run_entry_point(
            subject.graph, subject.oracles, entry, inputs, subject.parameters
        )
        what = Call(entry.name, inputs, (), len(entry.outputs))
        got = call(subject.runner, subject.model, what)
        names = (port.name for port in entry.outputs)
        compared = zip(names, expected, got, strict=True)
        return _rows(subject, "model", "oracle", entry, case, compared)

    return item


def _trace(
    subject: Subject, entry: EntryPoint, case: Case
) -> tuple[tuple[Array, ...], tuple[Step, ...]]:
    """Return an entry point's inputs, and its blocks as the oracle ran them."""
    inputs = entry_inputs(subject.graph, entry, case)
    _, steps = run_entry_point(
        subject.graph, subject.oracles, entry, inputs, subject.parameters, keep=True
    )
    return inputs, steps


def _call_block(
    subject: Subject, entry: EntryPoint, block: Block, inputs: tuple[Array, ...]
) -> tuple[Array, ...]:
    what = Call(f"block.{entry.name}.{block.name}", inputs, (), len(block.outputs))
    return call(subject.runner, subject.probe, what)


def _as_declared(block: Block, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    """Return a block's inputs in the element types that it takes."""
    types = dict(block.types)
    return tuple(
        as_element(value, types[name].element)
        for (name, _), value in zip(block.inputs, inputs, strict=True)
    )


def _rows(
    subject: Subject,
    level: str,
    name: str,
    entry: EntryPoint,
    case: Case,
    compared: Iterable[tuple[str, Array, Array]],
    typical: Array | None = None,
) -> list[Row]:
    """Return a row for each value; `typical` is the size of other values, if given."""
    tolerance = subject.tolerances[level]
    if typical is not None:
        tolerance = tolerance.among(typical)
    return [
        compare(
            Place(level, name, entry.name, case.inputs(), value),
            expected,
            got,
            tolerance,
        )
        for value, expected, got in compared
    ]
