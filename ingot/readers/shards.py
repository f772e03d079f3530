"""The index of a model in several safetensors files in, all their tensors out."""

from __future__ import annotations

import os
from pathlib import Path

from ingot.errors import IngotError
from ingot.readers.safetensors import REWRITE, StoredTensor, read_header
from ingot.readers.strict_json import parse_object, short


def read_index(path: Path, shown: str) -> dict[str, str]:
    """Return which file holds each tensor, of a `model.safetensors.index.json`.

    Raises: IngotError where the index is not a map of tensors to file names beside it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise IngotError(f"{shown}: cannot be read; {error.strerror}") from error
    # `metadata.total_size` is not checked: published models have it wrong.
    files = parse_object(content, shown).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise IngotError(
            f"{shown}: weight_map: expected an object of tensor names to file names,"
            f" found {short(files)}",
            "an index is written by `save_pretrained` beside the files it names",
        )
    for tensor, name in files.items():
        # A name with a folder could reach any file of the machine.
        if not isinstance(name, str) or not name or name != os.path.basename(name):
            raise IngotError(
                f"{shown}: weight_map[{tensor!r}]: expected the name of a file in the"
                f" same folder, found {short(name)}",
                REWRITE,
            )
    return files


def read_shards(
    folder: Path, index: dict[str, str], shown: str
) -> tuple[StoredTensor, ...]:
    """Return the tensors of all the files that an index names, file by file.

    Raises: IngotError where a file is missing or holds other tensors than the index
    says.
    """
    tensors: list[StoredTensor] = []
    for name in sorted(set(index.values())):
        listed = {tensor for tensor, file in index.items() if file == name}
        found = read_header(folder / name, f"{shown}/{name}")
        for tensor in sorted(listed.symmetric_difference(item.name for item in found)):
            where = index.get(tensor, "none")
            raise IngotError(
                f"{shown}/{name}: tensor {tensor!r}: the index and the file disagree;"
                f" expected it in {short(where)} alone,"
                f" found it {'missing' if tensor in listed else 'here'}",
                "fetch the index and all files of one revision of the model",
            )
        tensors.extend(found)
    return tuple(tensors)
