"""Define what components/indexing must compute; the results are float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Integers = NDArray[np.int32]
Exact = NDArray[np.float64]

# What a score becomes that may not be seen: the float32 next to -1e30.
UNSEEN = float(np.float32(-1e30))


def gather(x: Floats, positions: Integers) -> Exact:
    """Return rows of each sequence, by position.

    Shapes: x [batch, ctx, n_embd], positions [batch, seq] -> [batch, seq, n_embd].
    Raises: IndexError if a position is not in [0, ctx).
    Source: Harris et al. 2020, doi:10.1038/s41586-020-2649-2.
    """
    _refuse_outside(positions, x.shape[1])
    y = np.empty((*positions.shape, x.shape[2]))
    for b, places in enumerate(positions):
        y[b] = x[b, places]
    return y


def scatter(x: Floats, positions: Integers, rows: Floats) -> Exact:
    """Return x with rows of each sequence replaced, by position.

    Shapes: x [batch, ctx, n_embd], positions [batch, seq], rows [batch, seq, n_embd]
        -> [batch, ctx, n_embd], a new array.
    Raises: IndexError if a position is not in [0, ctx); ValueError if a sequence has a
        position twice: either row may be the result.
    Source: Harris et al. 2020, doi:10.1038/s41586-020-2649-2.
    """
    _refuse_outside(positions, x.shape[1])
    y = x.astype(np.float64)
    for b, places in enumerate(positions):
        if len(set(places.tolist())) < len(places):
            raise ValueError(f"positions of sequence {b} must differ")
        y[b, places] = rows[b]
    return y


def where(condition: Integers, a: Floats, b: Floats) -> Exact:
    """Return a where the condition is not 0, b elsewhere.

    Shapes: condition, a, b [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the shapes differ: nothing is broadcast.
    Source: Iverson 1962, "A Programming Language", section 1.7.
    """
    if not condition.shape == a.shape == b.shape:
        shapes = f"{condition.shape}, {a.shape} and {b.shape}"
        raise ValueError(f"shapes differ; found {shapes}")
    taken: Exact = np.where(condition != 0, a, b).astype(np.float64)
    return taken


def masked_scatter(x: Floats, mask: Integers, rows: Floats) -> Exact:
    """Put rows in the marked places, one after the other, sequence after sequence.

    Shapes: x [batch, seq, n_embd], mask [batch, seq] (not 0: marked),
        rows [n_patch, n_embd] -> [batch, seq, n_embd]; rows left over are not used.
    Raises: ValueError if there is no row, or fewer than marked places.
    Source: Wang et al. 2024, arXiv:2409.12191, section 2.1.
    """
    if not len(rows):
        raise ValueError("expected a row or more, found none")
    y = x.astype(np.float64)
    left = iter(rows)
    for b, s in np.argwhere(mask):
        row = next(left, None)
        if row is None:
            places = np.count_nonzero(mask)
            raise ValueError(f"expected {places} rows or more, found {len(rows)}")
        y[b, s] = row
    return y


def causal_mask(score: Floats, start: Integers, window: int) -> Exact:
    """Return scores of keys that a query may see, and -1e30 for the others.

    Shapes: score [batch, n_head, seq, ctx], start [batch] (position of query 0)
        -> [batch, n_head, seq, ctx].
    Units: window counts positions, the query's own included.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3; window: Beltagy et al.
        2020, arXiv:2004.05150, section 3.1.
    """
    seq, ctx = score.shape[2:]
    query = start[:, None] + np.arange(seq)
    behind = query[:, None, :, None] - np.arange(ctx)
    seen = (behind >= 0) & (behind < window)
    masked: Exact = np.where(seen, score.astype(np.float64), UNSEEN)
    return masked


def _refuse_outside(positions: Integers, end: int) -> None:
    """Reject positions out of range; NumPy would count negative ones from the end."""
    if positions.size and not 0 <= positions.min() <= positions.max() < end:
        found = f"{positions.min()} to {positions.max()}"
        raise IndexError(f"positions must be in [0, {end}), found {found}")
