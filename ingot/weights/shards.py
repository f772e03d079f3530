"""Read the index of a sharded checkpoint: which file has which tensor.

The shards state what they contain; the index reveals a missing one.
"""

from __future__ import annotations

import os
from pathlib import Path

from ingot.errors import IngotError
from ingot.weights.safetensors import REWRITE, StoredTensor
from ingot.weights.strict_json import parse_object, short

INDEX = "model.safetensors.index.json"

_ONE_REVISION = "fetch the index and all files of one revision of the model"


def read_index(path: Path, label: str) -> dict[str, str]:
    """Return the file of each tensor, from a `model.safetensors.index.json`.

    Raises: IngotError if the index does not map tensors to file names in its folder.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise IngotError(f"{label}: cannot be read; {error.strerror}") from error
    # `metadata.total_size` is not checked: published models have it wrong.
    files = parse_object(content, label).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise IngotError(
            f"{label}: weight_map: expected an object of tensor names to file names,"
            f" found {short(files)}",
            "`save_pretrained` writes an index next to the files that it names",
        )
    for tensor, name in files.items():
        # A name with a folder could refer to any file of the machine.
        if not isinstance(name, str) or not name or name != os.path.basename(name):
            raise IngotError(
                f"{label}: weight_map[{tensor!r}]: expected the name of a file in the"
                f" same folder, found {short(name)}",
                REWRITE,
            )
    return files


def check_index(
    index: dict[str, str], tensors: tuple[StoredTensor, ...], label: str
) -> None:
    """Compare an index with the tensors of the files in its folder.

    Raises: IngotError if a tensor is missing, or in another file.
    """
    for tensor in tensors:
        expected = index.get(tensor.name, "none")
        if os.path.basename(tensor.file) != expected:
            raise IngotError(
                f"{tensor.file}: tensor {tensor.name!r}: not where {label} says;"
                f" expected it in {short(expected)}, found it here",
                _ONE_REVISION,
            )
    missing = index.keys() - {tensor.name for tensor in tensors}
    for name in sorted(missing):
        raise IngotError(
            f"{label}: tensor {name!r}: not where the index says; expected it in"
            f" {short(index[name])}, found none",
            _ONE_REVISION,
        )
