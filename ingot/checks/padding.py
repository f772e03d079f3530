"""Tell which positions of a value are real, so that no padding is compared.

A sequence that is shorter than the others of its batch ends in padding. What a model
computes there is read by nobody, and a target may compute anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.checks.cases import Case
from ingot.model.graph import EntryPoint
from ingot.model.shapes import TensorType

Array: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Padding:
    """Where the sequences of one call end, and where a cache holds them."""

    lengths: tuple[int, ...]  # real tokens of each sequence
    seq: int  # tokens of each sequence, with those of the padding
    start: tuple[int, ...] = ()  # position of the first token, if there is a cache
    table: tuple[tuple[int, ...], ...] = ()  # blocks of each sequence in a paged cache

    def real(self, type_: TensorType, value: Array) -> Array | None:
        """Return where a value of this type is real; None if it has no padding.

        Shapes: value as the type says -> the same, bool.
        """
        import numpy as np

        dims = [str(dim) for dim in type_.shape]
        if "seq" in dims and "batch" in dims:
            return self._of_tokens(np.shape(value), dims)
        cached = {("batch", "ctx"): self._of_cache, ("n_block",): self._of_blocks}
        for names, find in cached.items():
            if self.start and tuple(dims[1 : 1 + len(names)]) == names:
                return find(np.shape(value))
        return None

    def _of_tokens(self, shape: tuple[int, ...], dims: list[str]) -> Array:
        import numpy as np

        places = np.arange(self.seq)[None, :] < np.array(self.lengths)[:, None]
        batch, seq = dims.index("batch"), dims.index("seq")
        sizes = [1] * len(shape)
        sizes[batch], sizes[seq] = places.shape
        places = places.T if seq < batch else places
        return np.broadcast_to(places.reshape(sizes), shape)

    def _written(self) -> list[tuple[int, int]]:
        """Return the sequence and the position of every token of the padding."""
        ends = enumerate(zip(self.start, self.lengths, strict=True))
        return [
            (row, first + token)
            for row, (first, length) in ends
            for token in range(length, self.seq)
        ]

    def _of_cache(self, shape: tuple[int, ...]) -> Array:
        """Shapes: [n_layer, batch, ctx, n_embd_kv]."""
        import numpy as np

        places = np.ones(shape, bool)
        for row, position in self._written():
            places[:, row, position] = False
        return places

    def _of_blocks(self, shape: tuple[int, ...]) -> Array:
        """Shapes: [n_layer, n_block, block_size, n_embd_kv]."""
        import numpy as np

        places = np.ones(shape, bool)
        # Block 0 belongs to no sequence: tokens beyond the table are written there.
        places[:, 0] = False
        for row, position in self._written():
            number, slot = divmod(position, shape[2])
            if number < len(self.table[row]):
                places[:, self.table[row][number], slot] = False
        return places


def real_of(padding: Padding | None, type_: TensorType, value: Array) -> Array | None:
    """Return where a value is real; None if all of it is."""
    return padding and padding.real(type_, value)


def padding_of(
    entry: EntryPoint, case: Case, inputs: tuple[Array, ...]
) -> Padding | None:
    """Return the padding of a case; None if the entry point knows of none.

    It does if it takes a mask, or the index of each sequence's last token.
    """
    import numpy as np

    given = {port.role: x for port, x in zip(entry.inputs, inputs, strict=True)}
    if not given.keys() & {"mask", "last_index"}:
        return None
    start = tuple(np.asarray(given.get("start", ())).tolist())
    table = np.asarray(given.get("block_table", ())).tolist()
    return Padding(case.valid, case.seq, start, tuple(map(tuple, table)))
