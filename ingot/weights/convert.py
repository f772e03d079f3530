"""A parameter's values in its source in, a range of a file with them as stored out.

Chunk by chunk, so that memory grows neither with the model nor with its largest tensor.
A tensor that is stored as it is in its source is not copied: its range there is
returned.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from ingot.errors import IngotError
from ingot.readers.safetensors import StoredTensor, read_chunks
from ingot.weights.completeness import Wanted
from ingot.weights.elements import ITEM_BYTES, decode, encode, first_not_finite
from ingot.weights.synthetic import synthetic_chunks

Array: TypeAlias = Any

# A multiple of every element's size; larger chunks were not faster.
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """Where a parameter's bytes are, as the archive is to hold them."""

    path: Path
    offset: int  # bytes
    size_bytes: int
    sha256: str


def from_tensor(
    wanted: Wanted, tensor: StoredTensor, path: Path, scratch: IO[bytes]
) -> Content:
    """Return the tensor's content, appended to `scratch` where its type changes.

    Raises: IngotError for a value that is NaN, infinite, or beyond the stored type.
    """
    if wanted.source == wanted.stored:
        hasher = hashlib.sha256()
        start = 0
        for chunk in read_chunks(path, tensor, CHUNK_BYTES):
            _refuse_not_finite(decode(chunk, wanted.source), start, tensor)
            start += len(chunk) // ITEM_BYTES[wanted.source]
            hasher.update(chunk)
        return Content(path, tensor.offset, tensor.size_bytes, hasher.hexdigest())

    def values() -> Iterator[Array]:
        start = 0
        for chunk in read_chunks(path, tensor, CHUNK_BYTES):
            decoded = decode(chunk, wanted.source)
            _refuse_not_finite(decoded, start, tensor)
            start += len(decoded)
            yield decoded

    return _append(values(), wanted, tensor.file, scratch)


def from_seed(wanted: Wanted, seed: int, scratch: IO[bytes]) -> Content:
    """Return random content for the parameter, appended to `scratch`."""
    values = synthetic_chunks(wanted.name, wanted.shape, seed, CHUNK_BYTES)
    return _append(values, wanted, f"synthetic, seed {seed}", scratch)


def hash_tensor(tensor: StoredTensor, path: Path) -> str:
    """Return the sha256 of the tensor's bytes in its source."""
    hasher = hashlib.sha256()
    for chunk in read_chunks(path, tensor, CHUNK_BYTES):
        hasher.update(chunk)
    return hasher.hexdigest()


def _append(
    values: Iterator[Array], wanted: Wanted, label: str, scratch: IO[bytes]
) -> Content:
    offset = scratch.tell()
    hasher = hashlib.sha256()
    start = 0
    for chunk in values:
        data = encode(chunk, wanted.stored)
        beyond = first_not_finite(decode(memoryview(data), wanted.stored))
        if beyond is not None:
            place = _place(start + beyond, wanted.shape)
            raise IngotError(
                f"{label}: tensor '{wanted.tensor}': a value is beyond the stored type;"
                f" expected a {wanted.stored}, found {chunk[beyond]:g} at {place}",
                "store it as bf16 or f32: change 'stored' in the rule of"
                " weights.policy",
            )
        start += len(chunk)
        hasher.update(data)
        scratch.write(data)
    size_bytes = math.prod(wanted.shape) * ITEM_BYTES[wanted.stored]
    return Content(Path(scratch.name), offset, size_bytes, hasher.hexdigest())


def _refuse_not_finite(values: Array, start: int, tensor: StoredTensor) -> None:
    index = first_not_finite(values)
    if index is not None:
        place = _place(start + index, tensor.shape)
        raise IngotError(
            f"{tensor.file}: tensor '{tensor.name}' has a value that is not finite;"
            f" expected a number, found {values[index]:g} at {place}",
            "the checkpoint is damaged, or its training diverged",
        )


def _place(index: int, shape: tuple[int, ...]) -> list[int]:
    place = []
    for size in reversed(shape):
        index, rest = divmod(index, size)
        place.append(rest)
    return place[::-1]
