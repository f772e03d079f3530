"""Test that a batch rejects wrong calls, and that a rejected call changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ingot.bundles.batch import Batch
from ingot.errors import IngotError
from ingot.model.graph import EntryPoint, Port
from ingot.model.manifest import read_manifest
from ingot.model.shapes import TensorType
from tests.project import ROOT

N_VOCAB, N_CTX = 256, 128


class Session:
    """A session whose logits show its inputs, and which fails on request."""

    def __init__(self, entries: tuple[EntryPoint, ...]) -> None:
        self.entries = {entry.name: entry for entry in entries}
        self.failing = False
        self.given: list[dict[str, Any]] = []

    def zeros(self, shape: tuple[int, ...]) -> Any:
        return np.zeros(shape, np.float32)

    def call(
        self, function: str, tensors: tuple[Any, ...], results: int
    ) -> tuple[Any, ...]:
        entry = self.entries[function]
        named = {p.name: t for p, t in zip(entry.inputs, tensors, strict=True)}
        if self.failing and self.given:
            raise IngotError("out of memory")
        self.given.append(named)
        logits = np.zeros((len(named["tokens"]), 1, N_VOCAB), np.float32)
        logits[:, 0, 0] = named["start"]
        return tuple(
            named[port.updates] if port.updates else logits for port in entry.outputs
        )

    def array(self, tensor: Any) -> Any:
        assert tensor.shape[-1] == N_VOCAB, "these are no logits"
        return tensor


@pytest.fixture(scope="module")
def entries() -> tuple[EntryPoint, ...]:
    """Of a model with blocks of 8 positions."""
    return read_manifest(ROOT / "models/toy-moe.yaml", ROOT).graph.entry_points


@pytest.fixture
def session(entries: tuple[EntryPoint, ...]) -> Session:
    return Session(entries)


def batch_of(session: Session, n_block: int = 20) -> Batch:
    """Return a batch with sequence 1, of 3 tokens."""
    batch = Batch(session, tuple(session.entries.values()), n_block, N_CTX)
    batch.prefill({1: (7, 8, 9)})
    session.given.clear()
    return batch


@pytest.mark.parametrize(
    ("call", "words"),
    ids=["row", "prefill", "decode", "large", "negative", "long", "full", "unknown"],
    argvalues=[
        (
            lambda batch: batch.prefill({2: (), 3: (5,)}),
            "sequence 2: expected at least 1 token, found 0",
        ),
        (lambda batch: batch.prefill({}), "no sequence is given; expected at least 1"),
        (lambda batch: batch.decode({}), "no sequence is given; expected at least 1"),
        (
            lambda batch: batch.prefill({2: (5,), 3: (2**31, 4)}),
            "sequence 3: a token is outside; expected 0 to 255, found 4 to 2147483648",
        ),
        (
            lambda batch: batch.decode({1: -1}),
            "sequence 1: a token is outside; expected 0 to 255, found -1 to -1",
        ),
        (
            lambda batch: batch.prefill({1: (5,), 2: (5,) * 129}),
            "sequence 2: longer than the context; expected at most n_ctx = 128"
            " positions, found 129",
        ),
        (
            lambda batch: batch.prefill({1: (5,), 2: (6,) * 100, 3: (7,) * 60}),
            "sequences 1, 2, 3: the pool is full; expected 21 free blocks, found 18\n"
            "  end a sequence, or make the pool larger",
        ),
        (lambda batch: batch.decode({1: 5, 2: 5}), "sequence 2: it has no tokens yet"),
    ],
)
def test_a_call_that_is_refused_changes_nothing(
    session: Session, call: Callable[[Batch], Any], words: str
) -> None:
    batch = batch_of(session)
    with pytest.raises(IngotError) as error:
        call(batch)
    assert str(error.value) == words
    assert not session.given
    unchanged(batch)


def unchanged(batch: Batch) -> None:
    """Sequence 1 has its 3 tokens and its block; no other has any."""
    assert batch.pool.free_blocks == 18
    for sequence in (2, 3):
        with pytest.raises(IngotError, match="it has no tokens yet"):
            batch.decode({sequence: 0})
    assert batch.decode({1: 0})[1][0] == 3


def test_a_call_that_fails_between_its_parts_changes_nothing(session: Session) -> None:
    batch = batch_of(session)
    # Padded to the longest, sequence 1 would leave the context: it is computed apart.
    session.failing = True
    with pytest.raises(IngotError, match="out of memory"):
        batch.prefill({1: (5,) * 9, 2: (6,) * 126})
    assert len(session.given) == 1
    session.failing = False
    unchanged(batch)


def test_logits_are_the_output_that_has_the_role(session: Session) -> None:
    session.entries = {
        name: replace(entry, outputs=tuple(reversed(entry.outputs)))
        for name, entry in session.entries.items()
    }
    assert batch_of(session).decode({1: 0})[1][0] == 3


def without(entry: EntryPoint, role: str) -> EntryPoint:
    inputs = tuple(port for port in entry.inputs if port.role != role)
    return replace(entry, inputs=inputs)


def with_state(entry: EntryPoint) -> EntryPoint:
    """The entry point with an additional cache that has one row per sequence."""
    kind = TensorType((2, "batch", 4), "f32")
    return replace(
        entry,
        inputs=(*entry.inputs, Port("state", kind, "cache", "state")),
        outputs=(*entry.outputs, Port("state", kind, "cache", "new", "state")),
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    ids=["last", "prefill table", "decode table", "state"],
    argvalues=[
        (
            lambda prefill, decode: (without(prefill, "last_index"), decode),
            "prefill: no input has the role last_index",
        ),
        (
            lambda prefill, decode: (without(prefill, "block_table"), decode),
            "prefill: no input has the role block_table",
        ),
        (
            lambda prefill, decode: (prefill, without(decode, "block_table")),
            "decode: no input has the role block_table",
        ),
        (
            lambda *entries: tuple(map(with_state, entries)),
            "prefill: cache 'state' is not the pool's; expected fixed sizes and"
            " n_block, found f32[2, batch, 4]",
        ),
    ],
)
def test_a_decoder_of_single_sequences_is_refused(
    entries: tuple[EntryPoint, ...], changed: Callable[..., Any], words: str
) -> None:
    found = changed(*entries)
    with pytest.raises(IngotError) as error:
        Batch(Session(found), found, 20, N_CTX)
    assert str(error.value) == words
