"""Compare a decoder's logits with golden logits.

Golden logits test what the oracle cannot: the graph itself and the weights. The logits
are compared at some token ids, relative to the range over the whole vocabulary. The
best tokens of reference and target must also be equal: exactly, because the file
contains no token that another order of summation could change, or within the cost of
rounded weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ingot.checks.compare import Place, Row, compare
from ingot.checks.golden_files import Expected, GoldenLogits
from ingot.checks.levels import Item, Subject
from ingot.checks.oracle_decoder import Caches, Given, Made, run_decoder
from ingot.model.graph import EntryPoint, Graph
from ingot.model.runner import Runner
from ingot.model.tolerance import Tolerance
from ingot.runtime.decoder import decoder_entries

Array: TypeAlias = Any


# Positions of a cache in addition to the written ones.
FREE = 3


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount of work for a target; an emulated one takes a second per token.

    Its components and blocks run long sequences. Here it runs enough to show that the
    model consists of them in the same way as on the other targets.
    """

    longest: int | None  # tokens of a prompt
    together: int  # prompts in a batch
    longest_together: int  # tokens of each of these
    forced: int  # greedy tokens at once
    steps: int  # greedy tokens one after the other


NATIVE = Amount(None, together=4, longest_together=64, forced=64, steps=8)
EMULATED = Amount(7, together=2, longest_together=2, forced=0, steps=0)

# A call reads and writes its caches as files.
CALL_CACHE_BYTES = 512 << 20


def logits_items(subject: Subject, golden: GoldenLogits) -> Iterator[Item]:
    """Yield prompts alone and in a padded batch, the longest first.

    Raises: IngotError if the entry points are not those of a decoder.
    """
    entry, _ = decoder_entries(subject.graph.entry_points)
    alone, together = choose(golden, subject.runner)
    for index in alone:
        yield prompts_item(subject, entry, golden, (index,), "golden")
    yield prompts_item(subject, entry, golden, together, "golden")


def greedy_items(subject: Subject, golden: GoldenLogits) -> Iterator[Item]:
    """Yield greedy tokens, at once and one by one; emulated, a prompt token by token.

    Raises: IngotError if the entry points are not those of a decoder.
    """
    entries = decoder_entries(subject.graph.entry_points)
    if subject.runner.emulated:
        yield _token_by_token(subject, entries, golden)
        return
    yield _forced(subject, entries, golden, NATIVE.forced)
    yield _one_by_one(subject, entries, golden, NATIVE.steps)


def choose(
    golden: GoldenLogits, runner: Runner
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the prompts to run alone and those to run as one batch, longest first.

    Prompts that are longer than the attention's window run on every target except the
    slowest, an emulated processor.
    """
    amount = EMULATED if runner.emulated else NATIVE
    lengths = [len(prompt) for prompt in golden.prompts]
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])

    def wanted(length: int) -> bool:
        windowed = golden.window is not None and length > golden.window
        short = amount.longest is None or length <= amount.longest
        return short or (windowed and not runner.prefix)

    fitting = [index for index in order if lengths[index] <= amount.longest_together]
    together = tuple(fitting[: amount.together])
    # Each token of an emulated target is run once.
    twice = () if not runner.emulated else together
    alone = tuple(i for i in order if wanted(lengths[i]) and i not in twice)
    return alone, together


def forced_rows(golden: GoldenLogits, count: int) -> tuple[tuple[int, int], ...]:
    """Return token and position of each row whose successor is a greedy token.

    Row i produces greedy[prompt_length + i]: it takes the previous token, at whose
    position `prompt_length + i - 1` tokens are in the cache.
    """
    first = golden.prompt_length - 1
    last = min(first + count, len(golden.greedy) - 1)
    return tuple((golden.greedy[place], place) for place in range(first, last))


def rows_a_call(graph: Graph, caches: Caches) -> int:
    """Return the number of rows per decode call, for caches of this size per row."""
    largest = max((dim.max for dim in graph.dynamic if dim.name == "batch"), default=1)
    size_bytes = sum(int(cache.nbytes) for cache in caches.values())
    return max(1, min(largest, CALL_CACHE_BYTES // max(size_bytes, 1)))


def of_range(tolerance: Tolerance, expected: Expected) -> Tolerance:
    """Return the tolerance for these logits.

    It is relative to the range over the whole vocabulary, not over the compared logits.
    """
    if not tolerance.of_range:
        return tolerance
    limit = tolerance.max_abs_error * expected.range
    return replace(tolerance, max_abs_error=limit, of_range=False)


def best_token(
    place: Place, expected: tuple[int, ...], logits: Array, tolerance: Tolerance
) -> Row:
    """Return the row of the best tokens: how far each is below the target's best.

    Shapes: logits [token, n_vocab].
    """
    import numpy as np

    level = "tokens" if place.level == "golden" else place.level
    return compare(
        replace(place, level=level, value="best token"),
        logits.max(axis=-1),
        logits[np.arange(len(logits)), list(expected)],
        # The cosine of single numbers means nothing.
        replace(tolerance.among(logits), min_cosine=None),
    )


def prompts_item(
    subject: Subject,
    entry: EntryPoint,
    golden: GoldenLogits,
    chosen: tuple[int, ...],
    level: str,
) -> Item:
    """Return the item that runs prompts as one batch and compares them at a level."""
    tokens = subject.tolerances["tokens" if level == "golden" else level]

    def item() -> list[Row]:
        rows = tuple(golden.prompts[index] for index in chosen)
        ctx = max(map(len, rows)) + FREE
        given = Given(rows, (0,) * len(rows), ctx)
        made = run_decoder(subject.runner, subject.model, entry, given)
        found: list[Row] = []
        for logits, index in zip(made.logits, chosen, strict=True):
            place = replace(_place(entry, f"prompt {index}", given), level=level)
            expected = golden.expected[index]
            found.append(best_token(place, (expected.token,), logits[None], tokens))
            found.append(_logits(subject, golden, place, expected, logits))
        return found

    return item


def _forced(
    subject: Subject,
    entries: tuple[EntryPoint, EntryPoint],
    golden: GoldenLogits,
    count: int,
) -> Item:
    """Decode many greedy tokens side by side, each after its own prefix.

    The cache of every row also contains the later tokens, which must have no effect.
    """

    def item() -> list[Row]:
        import numpy as np

        rows = forced_rows(golden, count)
        written = golden.greedy[: golden.prompt_length + len(rows) - 1]
        given = Given((written,), (0,), len(written) + FREE)
        caches = run_decoder(subject.runner, subject.model, entries[0], given).caches
        size = rows_a_call(subject.graph, caches)
        logits = []
        for first in range(0, len(rows), size):
            some = rows[first : first + size]
            given = replace(
                given,
                rows=tuple((token,) for token, _ in some),
                start=tuple(position for _, position in some),
            )
            held = {
                name: np.repeat(cache, len(some), axis=1)
                for name, cache in caches.items()
            }
            made = run_decoder(subject.runner, subject.model, entries[1], given, held)
            logits.append(made.logits)
        place = _place(entries[1], f"{len(rows)} greedy tokens at once", given)
        return _steps(subject, golden, place, np.concatenate(logits))

    return item


def _one_by_one(
    subject: Subject,
    entries: tuple[EntryPoint, EntryPoint],
    golden: GoldenLogits,
    count: int,
) -> Item:
    """Run a prompt and then token after token, with the returned caches."""

    def item() -> list[Row]:
        import numpy as np

        prompt = golden.greedy[: golden.prompt_length]
        given = Given((prompt,), (0,), len(prompt) + count + FREE)
        made = [run_decoder(subject.runner, subject.model, entries[0], given)]
        for token, position in forced_rows(golden, count + 1)[1:]:
            given = replace(given, rows=((token,),), start=(position,))
            made.append(_next(subject, entries[1], given, made[-1]))
        place = _place(entries[1], f"{len(made)} greedy tokens one by one", given)
        logits = np.concatenate([item.logits for item in made])
        return _steps(subject, golden, place, logits)

    return item


def _token_by_token(
    subject: Subject,
    entries: tuple[EntryPoint, EntryPoint],
    golden: GoldenLogits,
) -> Item:
    """Run the first token of a short prompt, and the rest with the returned caches."""

    def item() -> list[Row]:
        lengths = [len(prompt) for prompt in golden.prompts]
        index = lengths.index(min(length for length in lengths if length > 1))
        prompt, expected = golden.prompts[index], golden.expected[index]
        given = Given((prompt[:1],), (0,), len(prompt) + FREE)
        made = run_decoder(subject.runner, subject.model, entries[0], given)
        for position, token in enumerate(prompt[1:], 1):
            given = replace(given, rows=((token,),), start=(position,))
            made = _next(subject, entries[1], given, made)
        place = _place(entries[1], f"prompt {index} token by token", given)
        tokens = subject.tolerances["tokens"]
        return [
            best_token(place, (expected.token,), made.logits, tokens),
            _logits(subject, golden, place, expected, made.logits[0]),
        ]

    return item


def _next(subject: Subject, entry: EntryPoint, given: Given, before: Made) -> Made:
    return run_decoder(subject.runner, subject.model, entry, given, before.caches)


def _steps(
    subject: Subject, golden: GoldenLogits, place: Place, logits: Array
) -> list[Row]:
    """Return the rows of the first greedy steps.

    Shapes: logits [step, n_vocab].
    """
    first = golden.prompt_length
    tokens = golden.greedy[first : first + len(logits)]
    return [
        best_token(place, tokens, logits, subject.tolerances["tokens"]),
        *(
            _logits(
                subject,
                golden,
                replace(place, name=f"{place.name}, token {step}"),
                expected,
                logits[step],
            )
            for step, expected in golden.steps
            if step < len(logits)
        ),
    ]


def _place(entry: EntryPoint, name: str, given: Given) -> Place:
    return Place("golden", name, entry.name, given.sizes(), "logits")


def _logits(
    subject: Subject,
    golden: GoldenLogits,
    place: Place,
    expected: Expected,
    logits: Array,
) -> Row:
    tolerance = of_range(subject.tolerances[place.level], expected)
    return compare(place, expected.logits, logits[golden.ids], tolerance)
