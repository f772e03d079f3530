"""A paged decoder and a session in, logits of many sequences that come and go out.

Sequences of any length share one pool of blocks: some are in prefill while others
decode, and what ends leaves its blocks to the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ingot.bundles.blocks import BlockPool, refuse_undefined
from ingot.bundles.decoder import decoder_entries
from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.edges.session import Session
    from ingot.graph import EntryPoint

Array: TypeAlias = Any
Logits = dict[int, Array]
"""By sequence, of its last token: [n_vocab]."""


class Batch:
    """The sequences of one paged cache, each by a number that the caller chose."""

    def __init__(
        self,
        session: Session,
        entries: tuple[EntryPoint, ...],
        n_block: int,
        n_ctx: int,
    ) -> None:
        """Make an empty pool of so many blocks.

        Raises: IngotError where the entry points are not a paged decoder's.
        """
        self._session = session
        self._prefill, self._decode = decoder_entries(entries)
        if not self._prefill.block_size:
            raise IngotError("its caches are no pools of blocks: one sequence a row")
        self.pool = BlockPool(n_block, self._prefill.block_size, n_ctx)
        self._lengths: dict[int, int] = {}
        self._caches = {
            port.name: session.zeros(
                tuple(n_block if d == "n_block" else int(d) for d in port.type.shape)
            )
            for port in self._prefill.inputs
            if port.role == "cache"
        }

    def prefill(self, tokens: Mapping[int, tuple[int, ...]]) -> Logits:
        """Return the logits after these tokens of sequences, which may be new.

        Raises: IngotError where they do not fit the pool or the context.
        """
        longest = max(map(len, tokens.values()))
        together: dict[int, tuple[int, ...]] = {}
        found: Logits = {}
        for sequence, row in tokens.items():
            # Padding has positions too, and the table of angles has no more.
            if self._lengths.get(sequence, 0) + longest > self.pool.n_ctx:
                found |= self._call(self._prefill, {sequence: row})
            else:
                together[sequence] = row
        return found | (self._call(self._prefill, together) if together else {})

    def decode(self, tokens: Mapping[int, int]) -> Logits:
        """Return the logits after one more token of each of these sequences.

        Raises: IngotError where one does not exist, or does not fit.
        """
        for sequence in tokens:
            if sequence not in self._lengths:
                raise IngotError(f"sequence {sequence}: it has no tokens yet")
        rows = {sequence: (token,) for sequence, token in tokens.items()}
        return self._call(self._decode, rows)

    def end(self, sequence: int) -> None:
        """Forget a sequence; its blocks are the next one's.

        Raises: IngotError where there is none.
        """
        self.pool.free(sequence)
        self._lengths.pop(sequence, None)

    def _call(self, entry: EntryPoint, rows: Mapping[int, tuple[int, ...]]) -> Logits:
        import numpy as np

        lengths = [self._lengths.get(sequence, 0) for sequence in rows]
        sizes = [len(row) for row in rows.values()]
        for sequence, held, size in zip(rows, lengths, sizes, strict=True):
            self.pool.hold(sequence, held + size)
        tokens = np.zeros((len(rows), max(sizes)), np.int32)
        for place, row in enumerate(rows.values()):
            tokens[place, : len(row)] = row
        given = {
            "tokens": tokens,
            "start": np.array(lengths, np.int32),
            "last": np.array(sizes, np.int32) - 1,
            "block_table": self.pool.table(tuple(rows)),
        }
        n_vocab = int(entry.outputs[0].type.shape[-1])
        refuse_undefined(
            self.pool, given["block_table"], given["start"], tokens, n_vocab
        )
        tensors = tuple(
            self._caches[port.name] if port.role == "cache" else given[port.role]
            for port in entry.inputs
        )
        made = self._session.call(entry.name, tensors, len(entry.outputs))
        for port, tensor in zip(entry.outputs, made, strict=True):
            if port.updates:
                self._caches[port.updates] = tensor
        logits = self._session.array(made[0])[:, -1]
        for sequence, held, size in zip(rows, lengths, sizes, strict=True):
            self._lengths[sequence] = held + size
        return dict(zip(rows, logits, strict=True))
