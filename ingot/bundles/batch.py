"""Run many sequences on one paged decoder, as they start and end.

Sequences of any length share one pool of blocks: some can be in prefill while others
decode, and a sequence that ends frees its blocks for the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ingot.bundles.cache_blocks import BlockPool, check_indices, check_tokens
from ingot.errors import IngotError
from ingot.runtime.decoder import decoder_entries

if TYPE_CHECKING:
    from ingot.model.graph import EntryPoint, Port
    from ingot.runtime.session import Session

Array: TypeAlias = Any
Logits = dict[int, Array]
"""By sequence: the logits of its last token, [n_vocab]."""

PAGED = "block_table"


class Batch:
    """The sequences of one paged cache, each with a number that the caller chooses."""

    def __init__(
        self,
        session: Session,
        entries: tuple[EntryPoint, ...],
        n_block: int,
        n_ctx: int,
    ) -> None:
        """Create an empty pool of so many blocks.

        Raises: IngotError if the entry points are not those of a paged decoder.
        """
        self._session = session
        self._prefill, self._decode = decoder_entries(entries)
        _check_paged(self._prefill, self._decode)
        self.pool = BlockPool(n_block, self._prefill.block_size, n_ctx)
        self._lengths: dict[int, int] = {}
        self._caches = {
            port.name: session.zeros(
                tuple(n_block if d == "n_block" else int(d) for d in port.type.shape)
            )
            for port in self._prefill.inputs
            if port.role == "cache"
        }

    def prefill(self, tokens: Mapping[int, Sequence[int]]) -> Logits:
        """Return the logits after these tokens of sequences, which may be new.

        Raises: IngotError if a sequence has no tokens or an unknown one, if they do not
            fit into the pool or the context, or if the module fails; nothing changes
            then.
        """
        longest = max(map(len, tokens.values()), default=0)
        # Padding has positions too, and they must be within the table of angles.
        apart = [
            sequence
            for sequence in tokens
            if self._lengths.get(sequence, 0) + longest > self.pool.n_ctx
        ]
        together = [sequence for sequence in tokens if sequence not in apart]
        calls = [[sequence] for sequence in apart] + ([together] if together else [])
        return self._advance(self._prefill, tokens, calls)

    def decode(self, tokens: Mapping[int, int]) -> Logits:
        """Return the logits after one more token of each of these sequences.

        Raises: IngotError if a sequence does not exist, has an unknown token or does
            not fit, or if the module fails; nothing changes then.
        """
        for sequence in tokens:
            if sequence not in self._lengths:
                raise IngotError(f"sequence {sequence}: it has no tokens yet")
        rows = {sequence: (token,) for sequence, token in tokens.items()}
        return self._advance(self._decode, rows, [list(rows)])

    def end(self, sequence: int) -> None:
        """Remove a sequence and free its blocks.

        Raises: IngotError if there is none.
        """
        self.pool.free(sequence)
        self._lengths.pop(sequence, None)

    def _advance(
        self,
        entry: EntryPoint,
        rows: Mapping[int, Sequence[int]],
        calls: Iterable[list[int]],
    ) -> Logits:
        """Return the logits after these rows; each call covers some sequences.

        Raises: IngotError; then no sequence is longer, and none has more blocks.
        """
        check_tokens(rows, int(_logits(entry).type.shape[-1]))
        before = {sequence: self._lengths.get(sequence, 0) for sequence in rows}
        after = {
            sequence: before[sequence] + len(row) for sequence, row in rows.items()
        }
        self.pool.hold(after)
        found: Logits = {}
        try:
            for call in calls:
                found |= self._call(entry, {item: rows[item] for item in call})
        except BaseException:
            # Values were only written after the sequences' ends; nothing reads them.
            self.pool.cut(before)
            raise
        self._lengths |= after
        return found

    def _call(self, entry: EntryPoint, rows: Mapping[int, Sequence[int]]) -> Logits:
        import numpy as np

        sizes = np.array([len(row) for row in rows.values()], np.int32)
        tokens = np.zeros((len(rows), sizes.max()), np.int32)
        for place, row in enumerate(rows.values()):
            tokens[place, : len(row)] = row
        starts = [self._lengths.get(sequence, 0) for sequence in rows]
        given = {
            "tokens": tokens,
            "start": np.array(starts, np.int32),
            "last_index": sizes - 1,
            "block_table": self.pool.table(tuple(rows)),
        }
        check_indices(self.pool, given["block_table"], given["start"], int(sizes.max()))
        tensors = tuple(
            self._caches[port.name] if port.role == "cache" else given[port.role]
            for port in entry.inputs
        )
        results = self._session.call(entry.name, tensors, len(entry.outputs))
        made = dict(zip(entry.outputs, results, strict=True))
        for port, tensor in made.items():
            if port.updates:
                self._caches[port.updates] = tensor
        logits = self._session.array(made[_logits(entry)])[:, -1]
        return dict(zip(rows, logits, strict=True))


def _logits(entry: EntryPoint) -> Port:
    return next(port for port in entry.outputs if port.role == "logits")


def _check_paged(prefill: EntryPoint, decode: EntryPoint) -> None:
    """Reject a decoder that cannot serve many sequences from one pool.

    Raises: IngotError.
    """
    if not prefill.block_size:
        raise IngotError("its caches are no pools of blocks: one sequence a row")
    # Rows are padded to the longest, so each row needs the index of its last token.
    for entry, role in ((prefill, "last_index"), (prefill, PAGED), (decode, PAGED)):
        if role not in {port.role for port in entry.inputs}:
            raise IngotError(f"{entry.name}: no input has the role {role}")
    for port in prefill.inputs:
        sizes = {dim for dim in port.type.shape if isinstance(dim, str)}
        if port.role == "cache" and sizes - {"n_block"}:
            raise IngotError(
                f"{prefill.name}: cache '{port.name}' is not the pool's; expected fixed"
                f" sizes and n_block, found {port.type}"
            )
