"""Take the part of a checkpoint's tensor that belongs to a parameter, in its order.

Checkpoints join what parameters store separately (queries, keys and values in one
matrix), or have dims in another order (experts last). Consecutive rows are a smaller
tensor in the same file. Other orders are read block by block through a map of the file,
so that memory does not grow with the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from ingot.weights.element_types import BLOCKS
from ingot.weights.parameter_spec import ParameterSpec, SourceForm
from ingot.weights.safetensors import StoredTensor

Array: TypeAlias = Any


def view(wanted: ParameterSpec, tensor: StoredTensor) -> StoredTensor:
    """Return the rows of the tensor that belong to the parameter, as a tensor."""
    form = wanted.form
    if form is None:
        return tensor
    _, item_bytes = BLOCKS[tensor.element]
    row_bytes = math.prod(form.shape[1:]) * item_bytes
    return replace(
        tensor,
        shape=wanted.piece,
        offset=tensor.offset + form.row * row_bytes,
        size_bytes=math.prod(wanted.piece) * item_bytes,
    )


def is_turned(wanted: ParameterSpec) -> bool:
    """Return whether the values have another order than the parameter's."""
    return bool(wanted.form and wanted.form.axes)


def turned_bytes(
    form: SourceForm, tensor: StoredTensor, path: Path, rows: int
) -> Iterator[memoryview]:
    """Yield a tensor's bytes in the order of the parameter, up to `rows` rows each.

    Shapes: the tensor is a `view`, and has the parameter's shape.
    """
    import numpy as np

    _, item_bytes = BLOCKS[tensor.element]
    split = tuple(tensor.shape[form.axes.index(n)] for n in range(len(form.axes)))
    stored = np.memmap(path, f"<u{item_bytes}", "r", tensor.offset, split)
    turned = stored.transpose(form.axes)
    for matrix in turned if turned.ndim == 3 else (turned,):
        for start in range(0, len(matrix), rows):
            block = np.ascontiguousarray(matrix[start : start + rows])
            yield block.reshape(-1).view(np.uint8).data
