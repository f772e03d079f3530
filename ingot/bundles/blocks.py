"""Sequences and how many positions they need in, their blocks of one pool out.

Block 0 belongs to no sequence: tables end in it, and what a call computes for padding
goes there. Everything that a module takes for granted is refused here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ingot.errors import IngotError

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used."""


class BlockPool:
    """The blocks of a paged cache: which are free, and whose the others are."""

    def __init__(self, n_block: int, block_size: int, n_ctx: int) -> None:
        """Make a pool of free blocks, of which sequences get all but the first.

        Raises: IngotError where that leaves none.
        """
        if n_block < 2:
            raise IngotError(f"a pool needs 2 blocks or more, found {n_block}")
        self.n_block = n_block
        self.block_size = block_size
        self.n_ctx = n_ctx
        # The last one freed is the next one given: it may still be in a cache.
        self._free = list(range(n_block - 1, 0, -1))
        self._held: dict[int, list[int]] = {}

    @property
    def free_blocks(self) -> int:
        """Return how many blocks no sequence has."""
        return len(self._free)

    def hold(self, sequence: int, positions: int) -> None:
        """Give a sequence blocks for so many positions; it keeps those that it has.

        Raises: IngotError where it would be longer than the context, or the free blocks
        are too few; then it gets none.
        """
        if positions > self.n_ctx:
            raise IngotError(
                f"sequence {sequence}: longer than the context; expected at most"
                f" n_ctx = {self.n_ctx} positions, found {positions}"
            )
        held = self._held.get(sequence, [])
        missing = -(-positions // self.block_size) - len(held)
        if missing > len(self._free):
            raise IngotError(
                f"sequence {sequence}: the pool is full; expected {missing} free"
                f" blocks, found {len(self._free)}",
                "end a sequence, or make the pool larger",
            )
        taken = [self._free.pop() for _ in range(missing)]
        self._held[sequence] = held + taken

    def free(self, sequence: int) -> None:
        """Take a sequence's blocks back.

        Raises: IngotError where it has none.
        """
        if sequence not in self._held:
            raise IngotError(f"sequence {sequence}: it has no blocks")
        self._free += reversed(self._held.pop(sequence))

    def table(self, sequences: Sequence[int]) -> Array:
        """Return the sequences' blocks in the order of their positions, then zeros.

        Shapes: -> int32 [batch, n_block_seq], as wide as the longest needs.
        Raises: IngotError where a sequence has no blocks.
        """
        import numpy as np

        for sequence in sequences:
            if sequence not in self._held:
                raise IngotError(f"sequence {sequence}: it has no blocks")
        rows = [self._held[sequence] for sequence in sequences]
        table = np.zeros((len(rows), max(map(len, rows))), np.int32)
        for place, row in enumerate(rows):
            table[place, : len(row)] = row
        return table


def refuse_undefined(
    pool: BlockPool, table: Array, start: Array, tokens: Array, n_vocab: int
) -> None:
    """Refuse what a module would take as an address without a look at it.

    Shapes: table [batch, n_block_seq], start [batch], tokens [batch, seq], padding
    included.
    Raises: IngotError for a block outside the pool or that two sequences have, a
    position outside the context, and a token without a row in the embedding.
    """
    import numpy as np

    end = start + tokens.shape[1]
    for what, found, limit in (
        ("block", table, pool.n_block),
        ("token", tokens, n_vocab),
        ("position", np.concatenate([start, end - 1]), pool.n_ctx),
    ):
        if found.min() < 0 or found.max() >= limit:
            raise IngotError(
                f"a {what} is outside; expected 0 to {limit - 1},"
                f" found {found.min()} to {found.max()}"
            )
    owned = table[table > 0]
    if len(np.unique(owned)) < len(owned):
        raise IngotError("two sequences, or two places of one, have the same block")
