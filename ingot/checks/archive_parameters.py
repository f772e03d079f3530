"""Read the parameters of a baked archive as arrays: views of the mapped file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, TypeAlias

from ingot.checks.cases import numpy_type
from ingot.errors import IngotError
from ingot.model.graph import Graph
from ingot.weights.irpa import read_archive

Array: TypeAlias = Any


def read_parameters(graph: Graph, path: Path) -> dict[str, Array]:
    """Return every parameter of the graph in its shape.

    The shape comes from the graph, because the archive has only bytes.

    Raises: IngotError for a parameter that is missing or has another length.
    """
    import numpy as np

    entries = {entry.key: entry for entry in read_archive(path)}
    mapped = np.memmap(path, np.uint8, mode="r")
    arrays: dict[str, Array] = {}
    for parameter in graph.parameters:
        if parameter.name not in entries:
            raise IngotError(f"{path}: no parameter '{parameter.name}'")
        entry = entries[parameter.name]
        shape = tuple(int(size) for size in parameter.type.shape)
        dtype = numpy_type(parameter.type.element)
        expected = math.prod(shape) * dtype.itemsize
        if entry.size_bytes != expected:
            raise IngotError(
                f"{path}: parameter '{parameter.name}' has {entry.size_bytes} bytes; "
                f"expected {expected} for {parameter.type}"
            )
        content = mapped[entry.offset : entry.offset + expected]
        arrays[parameter.name] = content.view(dtype).reshape(shape)
    return arrays
