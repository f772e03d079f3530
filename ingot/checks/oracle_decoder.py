"""Run an entry point of a decoder on a target, with caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.checks.cases import ELEMENTS, as_element
from ingot.errors import IngotError
from ingot.model.graph import EntryPoint, Port
from ingot.model.runner import Runner
from ingot.runtime.calls import call
from ingot.runtime.decoder import ROLES
from ingot.runtime.invoke import Call, Module

Array: TypeAlias = Any
Caches: TypeAlias = Mapping[str, Array]
"""By input: each [n_layer, batch, ctx, n_embd_kv], or a pool of blocks."""


@dataclass(frozen=True, slots=True)
class Given:
    """Tokens of each sequence, and the number of its tokens that are in the cache."""

    rows: tuple[tuple[int, ...], ...]
    start: tuple[int, ...]
    ctx: int  # positions in the cache

    def sizes(self) -> tuple[tuple[str, int], ...]:
        """Return the sizes as a report shows them."""
        lengths = [len(row) for row in self.rows]
        sizes = (("batch", len(lengths)), ("seq", max(lengths)), ("ctx", self.ctx))
        padding = max(lengths) - min(lengths)
        return (*sizes, ("padded", padding)) if padding else sizes


@dataclass(frozen=True, slots=True)
class Made:
    """The results of an entry point.

    Shapes: logits [batch, n_vocab], of each sequence's last token.
    """

    logits: Array
    caches: Caches


def run_decoder(
    runner: Runner,
    module: Module,
    entry: EntryPoint,
    given: Given,
    caches: Caches | None = None,
) -> Made:
    """Return the target's results for the tokens; by default, the caches are empty.

    Raises: IngotError if it fails, or an input has no rule.
    """
    tensors = decoder_inputs(entry, given, caches or {})
    results = call(runner, module, Call(entry.name, tensors, (), len(entry.outputs)))
    by_port = list(zip(entry.outputs, results, strict=True))
    logits = next(value for port, value in by_port if port.role == "logits")
    kept = {port.updates: value for port, value in by_port if port.updates}
    return Made(logits[:, 0], kept)


def decoder_inputs(
    entry: EntryPoint, given: Given, caches: Caches
) -> tuple[Array, ...]:
    """Return an entry point's inputs, each sequence padded at its end to the longest.

    Raises: IngotError for an input whose role is unknown.
    """
    import numpy as np

    lengths = [len(row) for row in given.rows]
    tokens = np.zeros((len(lengths), max(lengths)), np.int64)
    for index, row in enumerate(given.rows):
        tokens[index, : len(row)] = row
    made = {"tokens": tokens, "start": given.start, "last_index": np.array(lengths) - 1}
    sizes = {"batch": len(lengths), "ctx": given.ctx}
    if block_size := entry.block_size:
        blocks = -(-given.ctx // block_size)
        sizes |= {"n_block_seq": blocks, "n_block": (1 + blocks) * len(lengths)}
        # The same order as if every block of one sequence were repeated for the others.
        number = np.arange(1, 1 + blocks) * len(lengths)
        made["block_table"] = np.arange(len(lengths))[:, None] + number

    def value(port: Port) -> Array:
        if port.role not in ROLES:
            raise IngotError(
                f"{entry.name}.{port.name}: no rule for role '{port.role}'",
                f"known roles: {', '.join(ROLES)}",
            )
        if port.role != "cache":
            return as_element(made[port.role], port.type.element)
        if port.name in caches:
            return caches[port.name]
        shape = [sizes[dim] if isinstance(dim, str) else dim for dim in port.type.shape]
        return np.zeros(shape, ELEMENTS[port.type.element])

    return tuple(map(value, entry.inputs))
