"""Assign the blocks of one pool to sequences.

Block 0 belongs to no sequence: tables are padded with it, and calls write padding to
it. This module rejects everything that a compiled module takes for granted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ingot.errors import IngotError, counted

Array: TypeAlias = Any
"""A NumPy array; NumPy is imported where it is used."""


class BlockPool:
    """The blocks of a paged cache: the free ones, and those of each sequence."""

    def __init__(self, n_block: int, block_size: int, n_ctx: int) -> None:
        """Create a pool of free blocks; sequences may use all except the first.

        Raises: IngotError if that leaves none.
        """
        if n_block < 2:
            raise IngotError(f"a pool needs 2 blocks or more, found {n_block}")
        self.n_block = n_block
        self.block_size = block_size
        self.n_ctx = n_ctx
        # Reuse the most recently freed block first, as it may still be in a CPU cache.
        self._free = list(range(n_block - 1, 0, -1))
        self._held: dict[int, list[int]] = {}

    @property
    def free_blocks(self) -> int:
        """Return the number of free blocks."""
        return len(self._free)

    def hold(self, positions: Mapping[int, int]) -> None:
        """Give each sequence blocks for this number of positions in total.

        Raises: IngotError if a sequence would be longer than the context, or if there
            are not enough free blocks for all; no sequence gets any then.
        """
        missing = {}
        for sequence, count in positions.items():
            if count > self.n_ctx:
                raise IngotError(
                    f"sequence {sequence}: longer than the context; expected at most"
                    f" n_ctx = {self.n_ctx} positions, found {count}"
                )
            held = len(self._held.get(sequence, []))
            missing[sequence] = max(0, self._blocks(count) - held)
        needed = sum(missing.values())
        if needed > len(self._free):
            names = ", ".join(map(str, positions))
            noun = "sequence" if len(positions) == 1 else "sequences"
            blocks = counted(needed, "free block")
            raise IngotError(
                f"{noun} {names}: the pool is full; expected {blocks},"
                f" found {len(self._free)}",
                "end a sequence, or make the pool larger",
            )
        for sequence, count in missing.items():
            taken = [self._free.pop() for _ in range(count)]
            self._held.setdefault(sequence, []).extend(taken)

    def cut(self, positions: Mapping[int, int]) -> None:
        """Free the blocks of each sequence beyond so many positions."""
        for sequence, count in positions.items():
            held = self._held.pop(sequence, [])
            kept = self._blocks(count)
            self._free += reversed(held[kept:])
            if count:
                self._held[sequence] = held[:kept]

    def free(self, sequence: int) -> None:
        """Free a sequence's blocks.

        Raises: IngotError if it has none.
        """
        if sequence not in self._held:
            raise IngotError(f"sequence {sequence}: it has no blocks")
        self.cut({sequence: 0})

    def table(self, sequences: Sequence[int]) -> Array:
        """Return the sequences' blocks in the order of their positions, then zeros.

        Shapes: -> int32 [batch, n_block_seq], as wide as the longest needs.
        Raises: IngotError if a sequence has no blocks.
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

    def _blocks(self, positions: int) -> int:
        return -(-positions // self.block_size)


def check_tokens(rows: Mapping[int, Sequence[int]], n_vocab: int) -> None:
    """Check that a module can look up all tokens without reading outside its memory.

    Raises: IngotError if there is no row, a row has no token, or a token has no row
        in the embedding.
    """
    if not rows:
        raise IngotError("no sequence is given; expected at least 1")
    for sequence, row in rows.items():
        if len(row) == 0:
            raise IngotError(f"sequence {sequence}: expected at least 1 token, found 0")
        if min(row) < 0 or max(row) >= n_vocab:
            raise IngotError(
                f"sequence {sequence}: a token is outside; expected 0 to {n_vocab - 1},"
                f" found {min(row)} to {max(row)}"
            )


def check_indices(pool: BlockPool, table: Array, start: Array, seq: int) -> None:
    """Check the values that a module uses as indices without a check of its own.

    Shapes: table [batch, n_block_seq], start [batch]; seq with padding.
    Raises: IngotError for a block that is outside the pool or that two sequences have,
        and for a position outside the context.
    """
    import numpy as np

    for what, found, limit in (
        ("block", table, pool.n_block),
        ("position", np.concatenate([start, start + seq - 1]), pool.n_ctx),
    ):
        if found.min() < 0 or found.max() >= limit:
            raise IngotError(
                f"a {what} is outside; expected 0 to {limit - 1},"
                f" found {found.min()} to {found.max()}"
            )
    owned = table[table > 0]
    if len(np.unique(owned)) < len(owned):
        raise IngotError("two sequences, or two positions of one, have the same block")
