"""Compare the weights of two bundles tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingot.bundles.difference import Change, Level
from ingot.bundles.reader import Bundle
from ingot.weights.archive import read_tensors
from ingot.weights.element_types import ITEM_BYTES, SAFETENSORS, decode
from ingot.weights.safetensors import StoredTensor

FLOATS = frozenset(SAFETENSORS)

Place = tuple[Path, StoredTensor]
"""An archive, and where in it a tensor is."""

# Numbers that are compared at a time, so that no tensor is in memory as a whole.
_PIECE = 1 << 22


def weight_changes(before: Bundle, after: Bundle) -> Iterator[Change]:
    """Yield the tensors that differ, with how much where both have one type and shape.

    Raises: IngotError if an archive cannot be read.
    """
    archives = [
        bundle.contract["files"][bundle.contract["parameters"]["archive"]]
        for bundle in (before, after)
    ]
    old, new = (bundle.contract["parameters"]["types"] for bundle in (before, after))
    places: list[dict[str, Place]] = []
    for name in dict.fromkeys([*old, *new]):
        one, other = old.get(name), new.get(name)
        if one == other:
            continue
        shown = (_shown(one), _shown(other))
        if one is None or other is None or _type(one) != _type(other):
            yield Change("weights", name, *shown, Level.MINOR)
        elif archives[0] != archives[1]:
            places = places or [_tensors(bundle) for bundle in (before, after)]
            numbers = _numbers(one["element"], *(found[name] for found in places))
            # Bundles up to version 2 have no digest of a tensor.
            if any(numbers.values()) or ("sha256" in one and "sha256" in other):
                yield Change("weights", name, *shown, Level.MINOR, numbers)


def _type(tensor: dict[str, Any]) -> str:
    return f"{tensor['element']}[{', '.join(map(str, tensor['shape']))}]"


def _shown(tensor: dict[str, Any] | None) -> str | None:
    if tensor is None:
        return None
    return f"{_type(tensor)} {tensor.get('sha256', '')[:12]}".strip()


def _tensors(bundle: Bundle) -> dict[str, Place]:
    archive = bundle.contract["parameters"]["archive"]
    path = bundle.folder / archive
    found = read_tensors(path, f"{bundle.name}: {archive}")
    return {tensor.name: (path, tensor) for tensor in found}


def _numbers(element: str, before: Place, after: Place) -> dict[str, float]:
    """Return how far the stored numbers of two tensors of one type are apart.

    Codes of rounded numbers mean nothing alone: of them, the share that differs.
    """
    import numpy as np

    item_bytes = ITEM_BYTES[element]
    size = before[1].size_bytes // item_bytes
    most, total, differing = 0.0, 0.0, 0
    with before[0].open("rb") as one, after[0].open("rb") as other:
        for start in range(0, size, _PIECE):
            count = min(_PIECE, size - start)
            pieces = []
            for file, (_, tensor) in ((one, before), (other, after)):
                file.seek(tensor.offset + start * item_bytes)
                pieces.append(file.read(count * item_bytes))
            if element in FLOATS:
                values = [
                    decode(memoryview(piece), element).astype(np.float64)
                    for piece in pieces
                ]
                apart = np.abs(values[0] - values[1])
                most, total = max(most, float(apart.max())), total + float(apart.sum())
            else:
                codes = [np.frombuffer(piece, f"<i{item_bytes}") for piece in pieces]
                differing += int(np.count_nonzero(codes[0] != codes[1]))
    if element in FLOATS:
        return {"max_abs": most, "mean_abs": total / size}
    return {"differing": differing / size}
