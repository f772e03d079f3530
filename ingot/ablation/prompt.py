"""Choose the entry point that reads tokens, and generate a seeded prompt for it."""

from __future__ import annotations

from typing import Any, TypeAlias

from ingot.checks.cases import Case, as_element, entry_inputs
from ingot.errors import IngotError
from ingot.model.graph import EntryPoint, Graph, Port
from ingot.model.oracle import token_limit

Array: TypeAlias = Any

TOKENS = 32
"""The default length of a prompt."""

# Every mode keeps the logits of all positions: 256 MB each at 262144 tokens.
MOST = 128


def reading_tokens(graph: Graph) -> EntryPoint:
    """Return the entry point that reads a whole prompt.

    Raises: IngotError if none does.
    """
    for entry in graph.entry_points:
        if any(p.role == "tokens" and "seq" in p.type.shape for p in entry.inputs):
            return entry
    names = ", ".join(entry.name for entry in graph.entry_points)
    raise IngotError(
        f"{graph.model}: no entry point reads a prompt, found {names}",
        "ablate needs one with an input of role 'tokens' and the dim 'seq'",
    )


def prompt(
    graph: Graph, entry: EntryPoint, tokens: int, seed: int
) -> tuple[Array, ...]:
    """Return a tensor per input: one sequence of random tokens without padding.

    Raises: IngotError for a length that the model does not accept, or for an integer
        input whose range is unknown.
    """
    _check_length(graph, tokens)
    ranges = {dim.name: dim for dim in graph.dynamic}
    ctx = max(tokens, ranges["ctx"].min) if "ctx" in ranges else 0
    if entry.block_size:
        ctx = -(-tokens // entry.block_size) * entry.block_size
    inputs = entry_inputs(graph, entry, Case(1, tokens, (tokens,), ctx))
    return tuple(
        _input(graph, entry, port, value, seed)
        for port, value in zip(entry.inputs, inputs, strict=True)
    )


def _input(
    graph: Graph, entry: EntryPoint, port: Port, value: Array, seed: int
) -> Array:
    import numpy as np

    if port.role in ("cache", "start"):
        return np.zeros_like(value)
    if port.role != "tokens":
        return value
    limit = token_limit(graph, entry, port.value)
    drawn = np.random.default_rng(seed).integers(0, limit or 1, value.shape)
    return as_element(drawn, port.type.element)


def _check_length(graph: Graph, tokens: int) -> None:
    ranges = [dim for dim in graph.dynamic if dim.name in ("seq", "ctx")]
    most = min([MOST, *(dim.max for dim in ranges)])
    least = max((dim.min for dim in ranges if dim.name == "seq"), default=1)
    if not least <= tokens <= most:
        raise IngotError(
            f"tokens={tokens}: expected {least} to {most}, for {graph.model}"
        )
