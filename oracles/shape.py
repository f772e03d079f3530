"""Define what components/shape must compute: float64 with unchanged values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32] | NDArray[np.float64]
Exact = NDArray[np.float64]


def transpose(x: Floats) -> Exact:
    """Exchange rows and columns of each sequence.

    Shapes: x [batch, seq, n_embd] -> [batch, n_embd, seq].
    Source: Cayley 1858, doi:10.1098/rstl.1858.0002, section 40.
    """
    return np.swapaxes(x, 1, 2).astype(np.float64)


def permute(x: Floats) -> Exact:
    """Put heads before positions.

    Shapes: x [batch, seq, n_head, head_dim] -> [batch, n_head, seq, head_dim].
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """
    return np.swapaxes(x, 1, 2).astype(np.float64)


def view(x: Floats, n_head: int) -> Exact:
    """Return each row as heads.

    Shapes: x [batch, seq, n_head*head_dim] -> [batch, seq, n_head, head_dim].
    Raises: ValueError if n_head does not divide the columns.
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """
    return np.stack(np.split(x.astype(np.float64), n_head, axis=-1), axis=-2)


def reshape(x: Floats) -> Exact:
    """Put the heads of each position side by side.

    Shapes: x [batch, seq, n_head, head_dim] -> [batch, seq, n_head*head_dim].
    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
    """
    heads = [x[:, :, head] for head in range(x.shape[2])]
    return np.concatenate(heads, axis=-1).astype(np.float64)


def split(x: Floats) -> tuple[Exact, Exact]:
    """Return the left and the right half of each row.

    Shapes: x [batch, seq, 2*n_ff] -> [batch, seq, n_ff] twice.
    Raises: ValueError if a row has an odd number of columns.
    Source: Shazeer 2020, arXiv:2002.05202, eq. 5.
    """
    left, right = np.split(x.astype(np.float64), 2, axis=-1)
    return left, right


def split_at(x: Floats, n_left: int, n_right: int) -> tuple[Exact, Exact]:
    """Return the left and the right part of each row.

    Shapes: x [batch, seq, n_left + n_right] -> [batch, seq, n_left] and [.., n_right].
    Raises: ValueError if the parts are not the row.
    Source: the inverse of `concat`.
    """
    if n_left + n_right != x.shape[-1]:
        raise ValueError(
            f"expected {x.shape[-1]} columns, found {n_left} and {n_right}"
        )
    exact = x.astype(np.float64)
    return exact[..., :n_left], exact[..., n_left:]


def unstack(x: Floats) -> tuple[Exact, Exact]:
    """Return the two tensors that lie behind each other.

    Shapes: x [2, batch, seq, n_embd] -> [batch, seq, n_embd] twice.
    Raises: ValueError if they are not two.
    """
    first, second = x.astype(np.float64)
    return first, second


def stack(first: Floats, second: Floats) -> Exact:
    """Return two tensors behind each other.

    Shapes: first, second [batch, seq, n_embd] -> [2, batch, seq, n_embd].
    Raises: ValueError if the shapes differ.
    Source: Harris et al. 2020, doi:10.1038/s41586-020-2649-2.
    """
    return np.stack([first, second]).astype(np.float64)


def concat(left: Floats, right: Floats, n_embd: int) -> Exact:
    """Put two rows side by side, at each position.

    Shapes: left [batch, seq, n_left], right [batch, seq, n_right]
        -> [batch, seq, n_embd], which is n_left + n_right.
    Raises: ValueError if the positions or the widths do not agree.
    Source: Ronneberger et al. 2015, arXiv:1505.04597, section 2.
    """
    if left.shape[:-1] != right.shape[:-1]:
        raise ValueError(f"shapes differ; expected {left.shape}, found {right.shape}")
    widths = left.shape[-1], right.shape[-1]
    if sum(widths) != n_embd:
        raise ValueError(f"expected n_embd of {sum(widths)}, found {n_embd}")
    return np.concatenate([left, right], axis=-1).astype(np.float64)


def repeat(x: Floats, n_head: int) -> Exact:
    """Return each head once for every head of queries that reads it.

    Shapes: x [batch, seq, n_head_kv, head_dim] -> [batch, seq, n_head, head_dim].
    Raises: ValueError if n_head is no multiple of n_head_kv.
    Source: Ainslie et al. 2023, arXiv:2305.13245, section 2.2.
    """
    group, rest = divmod(n_head, x.shape[2])
    if rest:
        raise ValueError(f"n_head must be a multiple of {x.shape[2]}, found {n_head}")
    return np.repeat(x, group, axis=2).astype(np.float64)


def slice_columns(x: Floats, first: int, n_keep: int) -> Exact:
    """Return neighbouring columns of each row.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_keep], from column `first` on.
    Raises: ValueError if there are no such columns.
    Source: Harris et al. 2020, doi:10.1038/s41586-020-2649-2.
    """
    if first < 0 or first + n_keep > x.shape[-1]:
        found = f"{first} to {first + n_keep - 1}"
        raise ValueError(f"columns must be below {x.shape[-1]}, found {found}")
    return x[..., first : first + n_keep].astype(np.float64)


def slice_leading(x: Floats, n_keep: int) -> Exact:
    """Return the first rows of a table.

    Shapes: x [n_ctx, n_embd] -> [n_keep, n_embd].
    Raises: ValueError if there are fewer rows.
    Source: Harris et al. 2020, doi:10.1038/s41586-020-2649-2.
    """
    if n_keep > len(x):
        raise ValueError(f"n_keep must be at most {len(x)}, found {n_keep}")
    return x[:n_keep].astype(np.float64)


def pad(x: Floats, value: float, n_padded: int) -> Exact:
    """Put columns of one value behind those of each row.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_padded].
    Units: value has the unit of x.
    Raises: ValueError if there are more columns already.
    Source: Harris et al. 2020, doi:10.1038/s41586-020-2649-2.
    """
    behind = n_padded - x.shape[-1]
    widths = ((0, 0), (0, 0), (0, behind))
    return np.pad(x.astype(np.float64), widths, constant_values=value)


def contiguous(x: Floats) -> Exact:
    """Return the same numbers.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: Paszke et al. 2019, arXiv:1912.01703.
    """
    return x.astype(np.float64)


def copy(x: Floats, into: Floats) -> Exact:
    """Return the numbers of x, in the place of another tensor.

    Shapes: x, into [batch, seq, n_embd] -> [batch, seq, n_embd].
    Raises: ValueError if the shapes differ.
    Source: Lawson et al. 1979, doi:10.1145/355841.355847.
    """
    if x.shape != into.shape:
        raise ValueError(f"shapes differ; expected {into.shape}, found {x.shape}")
    return x.astype(np.float64)


def clone(x: Floats) -> Exact:
    """Return the same numbers in a tensor of their own.

    Shapes: x [batch, seq, n_embd] -> [batch, seq, n_embd].
    Source: Paszke et al. 2019, arXiv:1912.01703.
    """
    return x.astype(np.float64)
