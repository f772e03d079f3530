"""Gather the content of every parameter from files or a seed.

All errors in the weights are reported at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ingot.errors import IngotError
from ingot.weights.archive import Baked, read_tensors
from ingot.weights.convert import (
    Content,
    from_seed,
    from_table,
    from_tensors,
    hash_tensor,
    packed_from_seed,
    packed_from_tensors,
)
from ingot.weights.element_types import PROJECT
from ingot.weights.gguf import read_header as read_gguf
from ingot.weights.match import (
    EMBEDDING,
    OUTPUT,
    Matched,
    match,
    other_table,
    untied,
    unused,
)
from ingot.weights.parameter_spec import ParameterSpec, container
from ingot.weights.safetensors import StoredTensor, read_header
from ingot.weights.shards import INDEX, check_index, read_index

INDEX_FILE = Path("weights") / INDEX

# The head's names in Hugging Face checkpoints and in GGUF.
HEADS = ("lm_head.weight", OUTPUT)

_READERS = {"safetensors": read_header, "gguf": read_gguf, "irpa": read_tensors}


@dataclass(frozen=True, slots=True)
class Collected:
    """Parameters that are ready for the archive, and the unused tensors."""

    baked: list[Baked]
    ignored: tuple[str, ...]


def from_files(
    wanted: tuple[ParameterSpec, ...],
    paths: dict[str, Path],
    ignore: tuple[str, ...],
    origin: str,
    scratch: IO[bytes],
) -> Collected:
    """Return the parameters with their content from files, in the given order.

    `paths` maps the names in messages to the files.

    Raises: ExceptionGroup of IngotError with every error in the weights.
    """
    read = tuple(item for item in wanted if item.table is None)
    matched = match(read, _tensors(paths), ignore, origin)
    errors = list(matched.errors)
    baked = {item.name: [_computed(item, scratch)] for item in wanted if item.table}
    for item, tensors in matched.pairs:
        try:
            baked[item.name] = _read(item, tensors, paths, scratch)
        except IngotError as error:
            errors.append(error)
    tied = _tied(wanted, matched)
    found, harmless = _leftovers(matched.unused, baked, tied, _Twins(matched, paths))
    errors += found
    if errors:
        raise ExceptionGroup(f"{origin}: the weights do not fit", errors)
    ignored = sorted((*matched.ignored, *harmless))
    return Collected(
        [part for item in wanted for part in baked[item.name]], tuple(ignored)
    )


def synthetic(
    wanted: tuple[ParameterSpec, ...], seed: int, origin: str, scratch: IO[bytes]
) -> Collected:
    """Return the parameters with random content, in the given order."""
    made: list[Baked] = []
    for item in wanted:
        if item.table:
            made.append(_computed(item, scratch))
        elif item.parts:
            contents = packed_from_seed(item, seed, scratch)
            made += _parts(item, contents, origin, item.name, "f32")
        else:
            content = from_seed(item, seed, scratch)
            made.append(Baked(item, content, origin, item.name, item.stored))
    return Collected(made, ())


def _read(
    item: ParameterSpec,
    tensors: tuple[StoredTensor, ...],
    paths: dict[str, Path],
    scratch: IO[bytes],
) -> list[Baked]:
    """Return the stored content of a parameter's tensors.

    Raises: IngotError for a value that cannot be stored.
    """
    first = tensors[0]
    element = PROJECT.get(first.element, first.element)
    if item.parts:
        contents = packed_from_tensors(item, tensors, paths, scratch)
        return _parts(item, contents, first.file, item.tensor, element)
    content = from_tensors(item, tensors, paths, scratch)
    return [Baked(item, content, first.file, item.tensor, element)]


def _parts(
    item: ParameterSpec, contents: list[Content], file: str, tensor: str, element: str
) -> list[Baked]:
    return [
        Baked(item.part(part), content, file, tensor, element)
        for part, content in zip(item.parts, contents, strict=True)
    ]


def _computed(item: ParameterSpec, scratch: IO[bytes]) -> Baked:
    assert item.table
    content = from_table(item, scratch)
    return Baked(item, content, "computed", str(item.table), item.stored)


def _tensors(paths: dict[str, Path]) -> tuple[StoredTensor, ...]:
    tensors = tuple(
        tensor
        for label, path in paths.items()
        for tensor in _READERS[container(path)](path, label)
    )
    if INDEX_FILE.exists():
        check_index(read_index(INDEX_FILE, INDEX), tensors, INDEX)
    return tensors


def _tied(wanted: tuple[ParameterSpec, ...], matched: Matched) -> StoredTensor | None:
    """Return the embedding's tensor if the model has no separate head."""
    if any(item.name == OUTPUT for item in wanted):
        return None
    return next((t[0] for item, t in matched.pairs if item.name == EMBEDDING), None)


def _leftovers(
    tensors: tuple[StoredTensor, ...],
    baked: dict[str, list[Baked]],
    tied: StoredTensor | None,
    twins: _Twins,
) -> tuple[list[IngotError], list[str]]:
    """Return errors for unused tensors, and the names of harmless ones.

    `tied` is the embedding that serves as the head.
    """
    errors, harmless = [], []
    for tensor in tensors:
        table = baked[tensor.name][0] if tensor.name in baked else None
        if table and table.wanted.table:
            # An archive contains the table, which must equal the computed one.
            if twins.digest(tensor) != table.content.sha256:
                errors.append(other_table(tensor, table.wanted))
                continue
        elif tied is None or tensor.name not in HEADS:
            errors.append(unused(tensor, twins.find(tensor)))
            continue
        elif not twins.same(tensor, tied):
            errors.append(untied(tensor, tied.name))
            continue
        harmless.append(tensor.name)
    return errors, harmless


class _Twins:
    """Finds tensors with the same bytes, hashing each at most once, if necessary."""

    def __init__(self, matched: Matched, paths: dict[str, Path]) -> None:
        self.tensors = [tensor for _, found in matched.pairs for tensor in found]
        self.paths = paths
        self.digests: dict[str, str] = {}

    def digest(self, tensor: StoredTensor) -> str:
        """Return the sha256 of the tensor's bytes."""
        if tensor.name not in self.digests:
            path = self.paths[tensor.file]
            self.digests[tensor.name] = hash_tensor(tensor, path)
        return self.digests[tensor.name]

    def same(self, one: StoredTensor, other: StoredTensor) -> bool:
        """Return whether two tensors have the same type, shape and bytes."""
        return (one.element, one.shape) == (
            other.element,
            other.shape,
        ) and self.digest(one) == self.digest(other)

    def find(self, tensor: StoredTensor) -> str | None:
        """Return an identical tensor that a parameter reads."""
        return next(
            (other.name for other in self.tensors if self.same(tensor, other)), None
        )
