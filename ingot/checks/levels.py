"""Compare the entry points of a model's module with the oracles.

The module `pieces` compares the components and blocks that they consist of.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ingot.checks.cases import PADDED_BATCH, Case, entry_inputs, make_case, model_cases
from ingot.checks.compare import Place, Row, compare
from ingot.checks.float32_oracle import in_float32, lost, n_sample, side_by_side
from ingot.checks.losses import SMALLEST, ULP, loss_scale
from ingot.checks.padding import padding_of, real_of
from ingot.model.graph import EntryPoint, Graph
from ingot.model.oracle import Oracle, run_entry_point
from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance
from ingot.runtime.calls import call
from ingot.runtime.decoder import PREFILL
from ingot.runtime.invoke import Call, Module

Array: TypeAlias = Any
Item = Callable[[], list[Row]]
"""One piece of work: a few calls of the target, and their rows."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The model to check, and the references to check it with."""

    graph: Graph
    oracles: Mapping[str, Oracle]
    parameters: Mapping[str, Array]
    runner: Runner
    model: Module
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


def model_items(subject: Subject, entry: EntryPoint) -> Iterator[Item]:
    """Yield the entry point against the oracle: one token, padded, the longest."""
    for case in model_cases(subject.graph, entry, subject.runner.emulated):
        yield _model(subject, entry, case)


def golden_entry(entries: tuple[EntryPoint, ...]) -> EntryPoint:
    """Return the entry point that golden files, sentences and prompts test.

    It is the one that computes embeddings, or the `prefill` of a decoder; if the model
    has neither, it is the first one.
    """
    embedding = embedding_entry(entries)
    prefill = (entry for entry in entries if entry.name == PREFILL)
    return embedding or next(prefill, entries[0])


def embedding_entry(entries: tuple[EntryPoint, ...]) -> EntryPoint | None:
    """Return the entry point that computes embeddings of tokens, or None."""
    for entry in entries:
        inputs = {port.role for port in entry.inputs}
        outputs = {port.role for port in entry.outputs}
        if "tokens" in inputs and "embedding" in outputs:
            return entry
    return None


def case_tolerances(subject: Subject, entry: EntryPoint) -> Subject:
    """Return the subject with the tolerances of golden files, sentences and prompts.

    Nobody runs these in float64 and in float32. What float32 loses of an entry point's
    result is therefore taken from a padded batch, as a share of the result's range. A
    golden file is of float32 too, so both sides may lose as much.
    """
    asked = {"golden": 2, "model": 1}
    if not any(subject.tolerances[level].of_losses for level in asked):
        return subject
    share = _loss_share(subject, entry)
    found = dict(subject.tolerances)
    for level, sides in asked.items():
        allowed = found[level]
        if allowed.of_losses:
            limit = sides * share * allowed.max_abs_error
            source = f"{'twice ' if sides == 2 else ''}{allowed.source}"
            found[level] = Tolerance(limit, None, source, of_range=True)
    return replace(subject, tolerances=found)


def _loss_share(subject: Subject, entry: EntryPoint) -> float:
    """Return what float32 loses of logits or an embedding, as a share of the range."""
    case = make_case(subject.graph, entry, *PADDED_BATCH)
    inputs = entry_inputs(subject.graph, entry, case)
    shares = [
        float(loss_scale(wide, loss, None).max())
        / max(float(wide.max() - wide.min()), SMALLEST)
        for port, wide, loss in zip(
            entry.outputs, *_both(subject, entry, case, inputs), strict=True
        )
        if port.role in ("logits", "embedding")
    ]
    return max(shares, default=ULP)


def _both(
    subject: Subject, entry: EntryPoint, case: Case, inputs: tuple[Array, ...]
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the oracle's results, and what float32 loses of each number."""
    types, count = (port.type for port in entry.inputs), n_sample(case.inputs())
    several = side_by_side([*zip(types, inputs, strict=True)], count)
    (expected, _), (narrow, _) = (
        run_entry_point(subject.graph, oracles, entry, given, subject.parameters)
        for oracles, given in (
            (subject.oracles, inputs),
            (in_float32(subject.oracles), several),
        )
    )
    made = zip(entry.outputs, expected, narrow, strict=True)
    return expected, tuple(lost(x.type, wide, less, count) for x, wide, less in made)


def _model(subject: Subject, entry: EntryPoint, case: Case) -> Item:
    def item() -> list[Row]:
        inputs = entry_inputs(subject.graph, entry, case)
        expected, losses = _both(subject, entry, case, inputs)
        what = Call(entry.name, inputs, (), len(entry.outputs))
        got = call(subject.runner, subject.model, what)
        padding = padding_of(entry, case, inputs)
        return [
            compare(
                Place("model", "oracle", entry.name, case.inputs(), port.name),
                wanted,
                found,
                subject.tolerances["model"],
                real_of(padding, port.type, wanted),
                loss,
            )
            for port, wanted, loss, found in zip(
                entry.outputs, expected, losses, got, strict=True
            )
        ]

    return item
