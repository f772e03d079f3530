"""Generate prompts for a decoder without a golden file, with the oracle's logits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from ingot.checks.cases import np_rng
from ingot.checks.golden_files import Expected, GoldenLogits
from ingot.checks.golden_logits import FREE, prompts_item
from ingot.checks.levels import Item, Subject
from ingot.checks.oracle_decoder import Given, decoder_inputs
from ingot.errors import IngotError
from ingot.model.graph import EntryPoint
from ingot.model.oracle import run_entry_point, token_limit
from ingot.runtime.decoder import decoder_entries

Array: TypeAlias = Any

# The number of tokens of each prompt; the oracle of a large model takes seconds per
# token.
LENGTHS = (3, 7)


def judge_prompts(subject: Subject) -> GoldenLogits | None:
    """Return short prompts of random tokens with the oracle's logits.

    The result is None if the model is not a decoder, or accepts too few tokens.
    """
    import numpy as np

    try:
        entry, _ = decoder_entries(subject.graph.entry_points)
    except IngotError:
        return None
    tokens = next(port for port in entry.inputs if port.role == "tokens")
    n_vocab = token_limit(subject.graph, entry, tokens.value)
    longest = max((d.max for d in subject.graph.dynamic if d.name == "seq"), default=0)
    if n_vocab is None or longest < max(LENGTHS):
        return None
    prompts = tuple(
        tuple(np_rng("prompt", length).integers(0, n_vocab, length).tolist())
        for length in LENGTHS
    )
    return GoldenLogits(
        ids=np.arange(n_vocab),
        prompts=prompts,
        expected=tuple(_after(subject, entry, prompt) for prompt in prompts),
        greedy=(),
        prompt_length=0,
        steps=(),
        window=None,
    )


def prompt_items(subject: Subject, judged: GoldenLogits) -> Iterator[Item]:
    """Yield the prompts to compare with the oracle, each alone."""
    entry, _ = decoder_entries(subject.graph.entry_points)
    for index in range(len(judged.prompts)):
        yield prompts_item(subject, entry, judged, (index,), "model")


def _after(subject: Subject, entry: EntryPoint, prompt: tuple[int, ...]) -> Expected:
    """Return the oracle's logits of the token after a prompt."""
    import numpy as np

    inputs = decoder_inputs(entry, Given((prompt,), (0,), len(prompt) + FREE), {})
    made, _ = run_entry_point(
        subject.graph, subject.oracles, entry, inputs, subject.parameters
    )
    place = [port.role for port in entry.outputs].index("logits")
    logits = made[place][0, -1].astype(np.float32)
    return Expected(logits, float(np.ptp(logits)), int(logits.argmax()))
