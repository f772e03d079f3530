"""Measure what rounded weights cost: perplexity, KL divergence and top-1 agreement.

The reference is the oracle with the source's weights in f32. Each position of a text
is predicted twice, by the reference and by the rounded model, which gets one token at a
time, as in generation.

Source: perplexity and KL divergence as in llama.cpp, tools/perplexity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.checks.oracle_decoder import Given, decoder_inputs, run_decoder
from ingot.model.graph import Block, EntryPoint, Graph
from ingot.model.oracle import Oracle, run_block
from ingot.model.runner import Runner
from ingot.runtime.decoder import decoder_entries
from ingot.runtime.invoke import Module

Array: TypeAlias = Any
Predict = Callable[[tuple[int, ...]], Array]
"""Return the logits after each token of a window: [token] -> [token, n_vocab]."""

SCHEMA = "ingot.quality.v1"
WINDOW = 256  # tokens that are predicted in one sequence
WINDOWS = 8
# Positions whose logits the oracle computes at once.
_CHUNK = 32


@dataclass(frozen=True, slots=True)
class Quality:
    """What rounding costs on a text.

    Units: divergence in nats per token.
    """

    tokens: int  # that were predicted
    perplexity: float
    reference_perplexity: float
    kl: float  # mean divergence of the rounded model from the reference
    top_1: float  # share of tokens whose best successor is the same

    @property
    def perplexity_ratio(self) -> float:
        """Return the perplexity as a multiple of the reference's."""
        return self.perplexity / self.reference_perplexity


def windows(tokens: list[int], prefix: list[int], n_ctx: int) -> list[tuple[int, ...]]:
    """Return the sequences of a text; each starts with the tokens of `prefix`."""
    size = min(WINDOW, n_ctx) - len(prefix)
    starts = range(0, len(tokens) - size + 1, size) if tokens else ()
    found = [tuple(prefix + tokens[start : start + size]) for start in starts]
    return found[:WINDOWS] or [tuple(prefix + tokens)]


def measure(
    reference: Predict, rounded: Predict, texts: list[tuple[int, ...]]
) -> Quality:
    """Return what the rounded model costs on the texts.

    The first token of a text is not predicted.
    """
    import numpy as np

    exact_loss, loss, kl, same, count = 0.0, 0.0, 0.0, 0, 0
    for text in texts:
        following = np.array(text[1:])
        rows = np.arange(len(following))
        expected = log_softmax(reference(text[:-1]))
        found = log_softmax(rounded(text[:-1]))
        exact_loss -= float(expected[rows, following].sum())
        loss -= float(found[rows, following].sum())
        kl += float((np.exp(expected) * (expected - found)).sum())
        same += int((expected.argmax(1) == found.argmax(1)).sum())
        count += len(rows)
    return Quality(
        tokens=count,
        perplexity=math.exp(loss / count),
        reference_perplexity=math.exp(exact_loss / count),
        kl=kl / count,
        top_1=same / count,
    )


def log_softmax(logits: Array) -> Array:
    """Return logarithms of probabilities, in float64.

    Shapes: [token, n_vocab] -> [token, n_vocab].
    """
    import numpy as np

    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def predict_by_target(runner: Runner, module: Module, graph: Graph) -> Predict:
    """Return a function that decodes a window token by token, on the target.

    Raises: IngotError if the entry points are not those of a decoder.
    """
    prefill, decode = decoder_entries(graph.entry_points)

    def predict(tokens: tuple[int, ...]) -> Array:
        import numpy as np

        given = Given((tokens[:1],), (0,), len(tokens))
        made = run_decoder(runner, module, prefill, given)
        logits = [made.logits]
        for position, token in enumerate(tokens[1:], 1):
            given = Given(((token,),), (position,), len(tokens))
            made = run_decoder(runner, module, decode, given, made.caches)
            logits.append(made.logits)
        return np.concatenate(logits)

    return predict


def predict_by_oracle(
    graph: Graph, oracles: Mapping[str, Oracle], parameters: Mapping[str, Array]
) -> Predict:
    """Return a function that computes all positions of a window with the oracle.

    `prefill` computes the logits of the last position only: the blocks from the one
    that selects it run for every position, the others once.

    Raises: IngotError if the entry points are not those of a decoder.
    """
    entry, _ = decoder_entries(graph.entry_points)

    def predict(tokens: tuple[int, ...]) -> Array:
        import numpy as np

        return np.concatenate(
            list(_positions(graph, oracles, parameters, entry, tokens))
        )

    return predict


def _positions(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    parameters: Mapping[str, Array],
    entry: EntryPoint,
    tokens: tuple[int, ...],
) -> Iterator[Array]:
    """Yield the logits of a few positions at a time: [position, n_vocab]."""
    import numpy as np

    inputs = decoder_inputs(entry, Given((tokens,), (0,), len(tokens)), {})
    values = dict(zip((port.value for port in entry.inputs), inputs, strict=True))
    last = next(port.value for port in entry.inputs if port.role == "last_index")
    logits = next(port.value for port in entry.outputs if port.role == "logits")
    takes = [last in {name for _, name in block.inputs} for block in entry.blocks]
    first_last = takes.index(True)
    for block in entry.blocks[:first_last]:
        values |= _run(graph, oracles, parameters, block, values)
    for first in range(0, len(tokens), _CHUNK):
        index = np.arange(first, min(first + _CHUNK, len(tokens)))
        # A row of the batch for each position.
        repeated = {
            name: np.broadcast_to(value, (len(index), *value.shape[1:]))
            for name, value in values.items()
            if value.shape[:1] == (1,)
        }
        repeated[last] = index.astype(values[last].dtype)
        for block in entry.blocks[first_last:]:
            repeated |= _run(graph, oracles, parameters, block, repeated)
        yield repeated[logits][:, 0]


def _run(
    graph: Graph,
    oracles: Mapping[str, Oracle],
    parameters: Mapping[str, Array],
    block: Block,
    values: Mapping[str, Array],
) -> dict[str, Array]:
    """Return the block's outputs by their names in the entry point."""
    given = tuple(values[name] for _, name in block.inputs)
    made = run_block(graph, oracles, block, given, parameters)
    return dict(zip((name for name, _ in block.outputs), made, strict=True))
