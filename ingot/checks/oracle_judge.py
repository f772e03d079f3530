"""Compare the oracle of a decoder with golden logits.

A target that rounds weights may differ from golden logits by what rounding costs, which
hides a misread number. The oracle of the same graph does not round: it may differ only
by what float32 costs the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ingot.checks.compare import Place, Row, compare
from ingot.checks.golden_files import Expected, GoldenLogits
from ingot.checks.golden_logits import FREE, of_range
from ingot.checks.oracle_decoder import Given, decoder_inputs
from ingot.model.graph import EntryPoint, Graph
from ingot.model.oracle import Oracle, run_entry_point
from ingot.model.tolerance import Tolerance
from ingot.runtime.decoder import decoder_entries

Array: TypeAlias = Any

ALLOWED = Tolerance(2e-4, None, "the reference is f32", of_range=True)
"""The project's bar for logits: a share of their range."""

# The oracle of a large model takes seconds per token.
LONGEST = 40


def judged_prompts(golden: GoldenLogits) -> tuple[int, ...]:
    """Return the prompts to compare: short ones, and one beyond the window."""
    lengths = [len(prompt) for prompt in golden.prompts]
    short = [index for index, length in enumerate(lengths) if length <= LONGEST]
    window = golden.window
    if window is not None and max(lengths) > window:
        beyond = min(length for length in lengths if length > window)
        short.append(lengths.index(beyond))
    return tuple(dict.fromkeys(short))


def judge_rows(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    parameters: Mapping[str, Array],
    golden: GoldenLogits,
) -> list[Row]:
    """Return a row per prompt.

    Raises: IngotError if the entry points are not those of a decoder.
    """
    entry, _ = decoder_entries(graph.entry_points)
    rows = []
    for index in judged_prompts(golden):
        prompt = golden.prompts[index]
        given = Given((prompt,), (0,), len(prompt) + FREE)
        logits = oracle_logits(graph, oracles, parameters, entry, given)[-1]
        place = Place(
            "golden", f"oracle, prompt {index}", entry.name, given.sizes(), "logits"
        )
        expected = golden.expected[index]
        rows.append(_row(place, golden, expected, logits))
    return rows


def oracle_logits(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    parameters: Mapping[str, Array],
    entry: EntryPoint,
    given: Given,
) -> Array:
    """Return the oracle's logits of one sequence, with empty caches.

    Shapes: -> [token, n_vocab]; models that compute only the last token's have 1 token.
    """
    inputs = decoder_inputs(entry, given, {})
    made, _ = run_entry_point(graph, oracles, entry, inputs, parameters)
    place = [port.role for port in entry.outputs].index("logits")
    return made[place][0]


def _row(place: Place, golden: GoldenLogits, expected: Expected, logits: Array) -> Row:
    tolerance = of_range(ALLOWED, expected)
    return compare(place, expected.logits, logits[golden.ids], tolerance)
