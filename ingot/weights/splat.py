"""Write an archive without content, in which one number is the value of every float."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ingot.weights.archive import described
from ingot.weights.element_types import ITEM_BYTES, SAFETENSORS, encode
from ingot.weights.irpa import SplatSource, write_splats
from ingot.weights.parameter_spec import ParameterSpec


def splat(
    archive: Path, parameters: tuple[ParameterSpec, ...], value: float
) -> dict[str, Any]:
    """Write an archive whose floats all have the value, and whose codes are all 1.

    The report has no digests, because there is no content.

    Raises: IngotError if it cannot be written.
    """
    stored = [
        part
        for item in parameters
        for part in ([item.part(each) for each in item.parts] or [item])
    ]
    stored.sort(key=lambda item: item.name)
    write_splats(archive, [_splat(item, value) for item in stored])
    return {
        "parameters": [
            {"name": item.name, "type": item.stored, "shape": item.shape}
            for item in stored
        ],
        "totals": {
            "parameters": len(stored),
            "elements": sum(math.prod(item.shape) for item in stored),
            "archive_bytes": archive.stat().st_size,
        },
    }


def _splat(item: ParameterSpec, value: float) -> SplatSource:
    import numpy as np

    number = np.array([value], "<f4")
    pattern = encode(number, item.stored) if item.stored in SAFETENSORS else b"\1"
    size_bytes = math.prod(item.shape) * ITEM_BYTES[item.stored]
    return SplatSource(item.name, pattern, size_bytes, described(item))
