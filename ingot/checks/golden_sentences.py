"""Compare an encoder's embeddings with golden files of an independent implementation.

Golden files test what the oracle cannot: the graph itself, the weights and the
tokenizer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

from ingot.checks.cases import as_element
from ingot.checks.compare import Place, Row, compare
from ingot.checks.golden_files import GoldenSentences
from ingot.checks.levels import Item, Subject, embedding_entry
from ingot.errors import IngotError
from ingot.model.graph import EntryPoint
from ingot.model.oracle import run_entry_point
from ingot.model.tolerance import Tolerance
from ingot.runtime.calls import call
from ingot.runtime.invoke import Call
from ingot.runtime.tokenizer import Tokenizer

Array: TypeAlias = Any
Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""Indices of sentences that run together."""

# For models without golden outputs of another implementation.
SENTENCES = (
    "hello",
    "The cat sits outside.",
    "A compiler translates a program from one language into another.",
)

# A token takes an emulated processor 0.1 to 0.5 s, a native one a millisecond.
EMULATED_SENTENCES = 32
EMULATED_GROUP_TOKENS = 512


def golden_items(subject: Subject, golden: GoldenSentences) -> Iterator[Item]:
    """Yield sentences in padded groups and alone, the longest first.

    Raises: IngotError if no entry point computes an embedding of tokens.
    """
    entry = embedding_entry(subject.graph.entry_points)
    if entry is None:
        raise IngotError(
            f"{subject.graph.model}: no entry point computes an embedding of tokens",
            "the golden file contains embeddings",
        )
    alone, groups = choose(golden, subject.runner.emulated)
    for group in groups:
        yield _group(subject, entry, golden, group, golden.batched, "golden")
    for group in alone:
        yield _group(subject, entry, golden, group, golden.embedding, "golden")


def sentence_items(subject: Subject, judged: GoldenSentences) -> Iterator[Item]:
    """Yield the sentences to compare with the oracle, if there is no golden file."""
    entry = embedding_entry(subject.graph.entry_points)
    if entry is not None:
        for index in range(len(judged.tokens)):
            yield _group(subject, entry, judged, (index,), judged.embedding, "model")


def judge_sentences(subject: Subject, tokenizer: Tokenizer) -> GoldenSentences | None:
    """Return a few sentences with the oracle's embeddings.

    The result is None if the model computes no embedding, or accepts too few tokens.
    """
    import numpy as np

    entry = embedding_entry(subject.graph.entry_points)
    longest = max((d.max for d in subject.graph.dynamic if d.name == "seq"), default=0)
    tokens = tuple(tokenizer.encode(sentence) for sentence in SENTENCES)
    if entry is None or max(map(len, tokens)) > longest:
        return None
    place = [port.role for port in entry.outputs].index("embedding")
    made = [
        run_entry_point(
            subject.graph,
            subject.oracles,
            entry,
            pad(entry, (ids,)),
            subject.parameters,
        )[0][place]
        for ids in tokens
    ]
    embedding = np.concatenate(made).astype(np.float32)
    return GoldenSentences(SENTENCES, tokens, embedding, embedding, batch=1)


def choose(golden: GoldenSentences, emulated: bool) -> tuple[Groups, Groups]:
    """Return the sentences to run alone and in padded groups, the longest first.

    An emulated target gets the shortest ones, because its time depends on the number of
    tokens, and the longest alone.
    """
    count = len(golden.tokens)
    alone: Groups = tuple((index,) for index in range(count))
    groups: Groups = tuple(
        tuple(range(start, min(start + golden.batch, count)))
        for start in range(0, count, golden.batch)
    )

    def tokens(group: tuple[int, ...]) -> int:
        return len(group) * max(len(golden.tokens[index]) for index in group)

    alone, groups = (tuple(sorted(item, key=tokens)) for item in (alone, groups))
    if emulated:
        alone = alone[: EMULATED_SENTENCES - 1] + alone[EMULATED_SENTENCES - 1 :][-1:]
        sums = itertools.accumulate(map(tokens, groups))
        fitting = sum(total <= EMULATED_GROUP_TOKENS for total in sums)
        groups = groups[: max(fitting, 1)]
    return alone[::-1], groups[::-1]


def pad(entry: EntryPoint, groups: tuple[tuple[int, ...], ...]) -> tuple[Array, ...]:
    """Return an entry point's inputs for token ids, padded at the end to the longest.

    Shapes: each [batch, seq].
    Raises: IngotError for an input whose role is unknown.
    """
    import numpy as np

    longest = max(len(ids) for ids in groups)
    tokens = np.zeros((len(groups), longest), np.int32)
    mask = np.zeros_like(tokens)
    for row, ids in enumerate(groups):
        tokens[row, : len(ids)] = ids
        mask[row, : len(ids)] = 1
    made = {"tokens": tokens, "mask": mask, "token_types": np.zeros_like(tokens)}
    for port in entry.inputs:
        if port.role not in made:
            raise IngotError(
                f"{entry.name}.{port.name}: no rule for role '{port.role}'",
                f"known roles: {', '.join(made)}",
            )
    return tuple(
        as_element(made[port.role], port.type.element) for port in entry.inputs
    )


def token_rows(golden: GoldenSentences, tokenizer: Tokenizer) -> list[Row]:
    """Return one row per sentence; its error is the number of ids that differ."""
    exact = Tolerance(0.0, None, "token ids are exact")
    return [
        _token_row(index, golden.tokens[index], tokenizer.encode(sentence), exact)
        for index, sentence in enumerate(golden.sentences)
    ]


def _token_row(
    index: int, expected: tuple[int, ...], got: tuple[int, ...], exact: Tolerance
) -> Row:
    longest = max(len(expected), len(got))
    # -1 means that the id is missing on one side.
    pairs = [
        (
            expected[i] if i < len(expected) else -1,
            got[i] if i < len(got) else -1,
        )
        for i in range(longest)
    ]
    wrong = [i for i, (a, b) in enumerate(pairs) if a != b]
    worst = wrong[0] if wrong else 0
    return Row(
        place=Place(
            level="tokens",
            name=f"sentence {index}",
            entry_point="tokenizer",
            inputs=(("tokens", len(expected)),),
            value="tokens",
        ),
        max_abs_error=float(len(wrong)),
        worst=(worst,),
        expected=float(pairs[worst][0]) if pairs else 0.0,
        got=float(pairs[worst][1]) if pairs else 0.0,
        cosine=None,
        tolerance=exact.max_abs_error,
        tolerance_source=exact.source,
        passed=not wrong,
    )


def _group(
    subject: Subject,
    entry: EntryPoint,
    golden: GoldenSentences,
    group: tuple[int, ...],
    embeddings: Array,
    level: str,
) -> Item:
    def item() -> list[Row]:
        ids = tuple(golden.tokens[index] for index in group)
        inputs = pad(entry, ids)
        got = call(
            subject.runner,
            subject.model,
            Call(entry.name, inputs, (), len(entry.outputs)),
        )
        roles = [port.role for port in entry.outputs]
        longest = max(map(len, ids))
        padding = longest - min(map(len, ids))
        sizes = (("batch", len(ids)), ("seq", longest), ("padded", padding))
        name = f"sentence {group[0]}"
        if len(group) > 1:
            name = f"sentences {group[0]}-{group[-1]}"
        place = Place(
            level=level,
            name=name,
            entry_point=entry.name,
            inputs=sizes if padding else sizes[:2],
            value=entry.outputs[roles.index("embedding")].name,
        )
        return [
            compare(
                place,
                embeddings[list(group)],
                got[roles.index("embedding")],
                subject.tolerances[level],
            )
        ]

    return item
