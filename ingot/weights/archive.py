"""Parameters ready to be stored in, a parameter archive that was read back out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ingot.errors import IngotError
from ingot.weights.completeness import Wanted
from ingot.weights.convert import Content
from ingot.weights.elements import NUMPY_NAMES

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Baked:
    """A parameter ready for the archive, and what it was made of."""

    wanted: Wanted
    content: Content
    file: str  # as messages name it
    tensor: str


def write(archive: Path, baked: list[Baked]) -> None:
    """Write an archive of the parameters, in the given order.

    Raises: IngotError where what can be read back is not what went in.
    """
    from ingot.edges.runtime import ArchiveSource, write_archive

    entries = write_archive(
        archive,
        [
            ArchiveSource(
                key=item.wanted.name,
                path=item.content.path,
                offset=item.content.offset,
                size_bytes=item.content.size_bytes,
                metadata=_metadata(item.wanted),
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


def _metadata(wanted: Wanted) -> str:
    # The form that iree.runtime.parameter_index_entry_as_numpy_ndarray reads.
    described = {
        "type": "Tensor",
        "dtype": NUMPY_NAMES[wanted.stored],
        "shape": list(wanted.shape),
    }
    return f"TENSORv0:{json.dumps(described)}"


def _hash_range(file: IO[bytes], offset: int, size_bytes: int) -> str:
    hasher = hashlib.sha256()
    file.seek(offset)
    while size_bytes and (block := file.read(min(size_bytes, _BLOCK_BYTES))):
        hasher.update(block)
        size_bytes -= len(block)
    return hasher.hexdigest()
