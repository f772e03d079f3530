"""Write a parameter archive, and read one back.

The bake also reads archives as a source of weights.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ingot.errors import IngotError
from ingot.weights.convert import Content
from ingot.weights.element_types import BLOCKS, NUMPY_NAMES, SAFETENSORS
from ingot.weights.parameter_spec import ParameterSpec
from ingot.weights.safetensors import DOWNLOAD_AGAIN, StoredTensor

_BLOCK_BYTES = 1 << 20
_METADATA = "TENSORv0:"
_ELEMENTS = {NUMPY_NAMES[ours]: theirs for ours, theirs in SAFETENSORS.items()}


@dataclass(frozen=True, slots=True)
class Baked:
    """A parameter that is ready for the archive, and its origin."""

    wanted: ParameterSpec
    content: Content
    file: str  # as messages name it
    tensor: str
    element: str  # of the tensor: "bf16", "Q8_0"


def write(archive: Path, baked: list[Baked]) -> None:
    """Write an archive of the parameters, in the given order.

    Raises: IngotError if the archive reads back differently.
    """
    from ingot.weights.irpa import ArchiveSource, write_archive

    entries = write_archive(
        archive,
        [
            ArchiveSource(
                key=item.wanted.name,
                path=item.content.path,
                offset=item.content.offset,
                size_bytes=item.content.size_bytes,
                metadata=described(item.wanted),
            )
            for item in baked
        ],
    )
    with archive.open("rb") as file:
        for item, entry in zip(baked, entries, strict=True):
            found = _hash_range(file, entry.offset, entry.size_bytes)
            if (entry.key, found) != (item.wanted.name, item.content.sha256):
                raise IngotError(
                    f"{archive}: parameter '{item.wanted.name}': not as it was written;"
                    f" expected sha256 {item.content.sha256}, found {found}",
                    "the disk is full or damaged, or the source changed meanwhile",
                )


def read_tensors(path: Path, label: str) -> tuple[StoredTensor, ...]:
    """Return the tensors of an archive, in its order; `label` names it in messages.

    Raises: IngotError for an incomplete archive, or for a parameter without a shape and
        a type.
    """
    from ingot.weights.irpa import read_archive

    size_bytes = path.stat().st_size
    try:
        entries = read_archive(path)
    except IngotError as error:
        # The archive may not be the user's own, so "bake it again" would be no help.
        message = error.message.replace(str(path), label)
        raise IngotError(message, DOWNLOAD_AGAIN) from error
    tensors = []
    for entry in entries:
        element, shape = _described(entry.key, entry.metadata, label)
        end = entry.offset + entry.size_bytes
        if end > size_bytes:
            raise IngotError(
                f"{label}: parameter '{entry.key}': reaches past the end of the file;"
                f" expected {end} bytes or more, found {size_bytes}",
                DOWNLOAD_AGAIN,
            )
        tensor = StoredTensor(
            entry.key, element, shape, label, entry.offset, entry.size_bytes
        )
        _, item_bytes = BLOCKS.get(element, (1, None))
        if item_bytes and math.prod(shape) * item_bytes != entry.size_bytes:
            raise IngotError(
                f"{label}: parameter '{entry.key}': its size is not that of its shape;"
                f" expected {math.prod(shape) * item_bytes} bytes for {tensor}, found"
                f" {entry.size_bytes}",
                "the program that wrote the archive is at fault",
            )
        tensors.append(tensor)
    return tuple(tensors)


def _described(key: str, metadata: str, label: str) -> tuple[str, tuple[int, ...]]:
    """Return element type and shape, which an archive may omit."""
    try:
        described = json.loads(metadata.removeprefix(_METADATA))
        shape = tuple(int(size) for size in described["shape"])
        return _ELEMENTS.get(described["dtype"], described["dtype"]), shape
    except (ValueError, KeyError, TypeError) as error:
        raise IngotError(
            f"{label}: parameter '{key}': no type and shape; expected metadata such as"
            f' {_METADATA}{{"type": "Tensor", "dtype": "float32", "shape": [2, 3]}},'
            f" found {metadata!r}",
            "write it with iree.runtime.parameter_index_add_numpy_ndarray, or bake"
            " another source",
        ) from error


def described(wanted: ParameterSpec) -> str:
    """Return the metadata of a parameter's entry: its type and shape."""
    # The format that iree.runtime.parameter_index_entry_as_numpy_ndarray reads.
    found = {
        "type": "Tensor",
        "dtype": NUMPY_NAMES[wanted.stored],
        "shape": list(wanted.shape),
    }
    return f"{_METADATA}{json.dumps(found)}"


def _hash_range(file: IO[bytes], offset: int, size_bytes: int) -> str:
    hasher = hashlib.sha256()
    file.seek(offset)
    while size_bytes and (block := file.read(min(size_bytes, _BLOCK_BYTES))):
        hasher.update(block)
        size_bytes -= len(block)
    return hasher.hexdigest()
