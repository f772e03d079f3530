"""Convert a parameter's values from its source to the stored type.

The conversion works on blocks of whole rows, so that memory does not grow with the
model, and so that packing and scaling can work row by row. It keeps the scales of a
tensor until the tensor ends: a sixteenth of a byte per value. A tensor that is stored
unchanged is not copied; the result is its range in the source file.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from ingot.errors import IngotError
from ingot.weights.element_types import (
    BLOCKS,
    ITEM_BYTES,
    SAFETENSORS,
    decode,
    encode,
    first_not_finite,
    rows_of_blocks,
)
from ingot.weights.ggml_blocks import read_blocks
from ingot.weights.packing import grouped, packed, quantised
from ingot.weights.parameter_spec import ParameterSpec, SourceForm
from ingot.weights.quantise import SCHEMES
from ingot.weights.relayout import is_turned, turned_bytes, view
from ingot.weights.rope_table import rope_blocks
from ingot.weights.safetensors import StoredTensor, read_chunks
from ingot.weights.synthetic import synthetic_chunks

Array: TypeAlias = Any
Found: TypeAlias = tuple[StoredTensor, ...]
Paths: TypeAlias = dict[str, Path]

# Values per block, 4 MiB as float32; larger blocks were not faster.
BLOCK_VALUES = 1 << 20
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Content:
    """The range of a file with a parameter's bytes as the archive stores them."""

    path: Path
    offset: int  # bytes
    size_bytes: int
    sha256: str


def from_tensors(
    wanted: ParameterSpec, found: Found, paths: Paths, scratch: IO[bytes]
) -> Content:
    """Return the tensors' content, appended to `scratch` if it needs a conversion.

    Raises: IngotError for a value that is NaN, infinite, or beyond the stored type.
    """
    tensor, path = view(wanted, found[0]), paths[found[0].file]
    is_one = len(found) == 1 and not is_turned(wanted)
    if (
        is_one
        and wanted.convention(path).changes_nothing
        and tensor.element == SAFETENSORS[wanted.stored]
    ):
        hasher = hashlib.sha256()
        for chunk, _ in _checked_chunks(tensor, path, 1):
            hasher.update(chunk)
        return Content(path, tensor.offset, tensor.size_bytes, hasher.hexdigest())
    blocks = _all_rows(wanted, found, paths)
    return _append(blocks, wanted, tensor.file, scratch)


def packed_from_tensors(
    wanted: ParameterSpec, found: Found, paths: Paths, scratch: IO[bytes]
) -> list[Content]:
    """Return the content of each part of a packed matrix.

    The content is appended to `scratch`. Codes and scales of the stored type are copied
    from the file; other values are rounded to it.

    Raises: IngotError for a value that is NaN, infinite, or beyond the stored type.
    """
    if all(is_kept(wanted.stored, tensor.element) for tensor in found):
        parts = _kept_parts(wanted, found, paths)
    else:
        rows = _all_rows(wanted, found, paths)
        parts = _rounded_parts(rows, wanted, found[0].file)
    return _pack(parts, wanted, scratch)


def is_kept(stored: str, element: str) -> bool:
    """Return whether a tensor's codes and scales are those of the stored type."""
    return stored in SCHEMES and SCHEMES[stored].ggml == element


def _kept_parts(
    wanted: ParameterSpec, found: Found, paths: Paths
) -> Iterator[dict[str, bytes]]:
    import numpy as np

    for tensor in found:
        row_bytes = tensor.size_bytes // _rows(wanted.piece)[0]
        path = paths[tensor.file]
        for chunk, _ in _checked_chunks(tensor, path, _multiple(wanted, path)):
            content = np.frombuffer(chunk, np.uint8).reshape(-1, row_bytes)
            rows = _whole_tiles(_in_halves(content, wanted, path), wanted.tile_n)
            blocks = read_blocks(rows, tensor.element)
            yield packed(blocks, wanted.stored, wanted.tile_n)


def _all_rows(wanted: ParameterSpec, found: Found, paths: Paths) -> Iterator[Array]:
    for tensor in found:
        yield from row_blocks(wanted, tensor, paths[tensor.file])


def from_seed(wanted: ParameterSpec, seed: int, scratch: IO[bytes]) -> Content:
    """Return random content for the parameter, appended to `scratch`."""
    values = synthetic_chunks(wanted.name, wanted.shape, seed, CHUNK_BYTES)
    return _append(values, wanted, f"synthetic, seed {seed}", scratch)


def packed_from_seed(
    wanted: ParameterSpec, seed: int, scratch: IO[bytes]
) -> list[Content]:
    """Return random content for each part of a packed matrix."""
    width = wanted.shape[-1]
    step = wanted.tile_n * width
    chunk_bytes = step * max(1, BLOCK_VALUES // step) * ITEM_BYTES["f32"]
    blocks = synthetic_chunks(wanted.name, wanted.shape, seed, chunk_bytes)
    rows = (block.reshape(-1, width) for block in blocks)
    parts = _rounded_parts(rows, wanted, f"synthetic, seed {seed}")
    return _pack(parts, wanted, scratch)


def from_table(wanted: ParameterSpec, scratch: IO[bytes]) -> Content:
    """Return the content of a computed parameter, appended to `scratch`."""
    assert wanted.table
    values = rope_blocks(wanted.shape, wanted.table, BLOCK_VALUES)
    return _append(values, wanted, wanted.name, scratch)


def row_blocks(
    wanted: ParameterSpec, tensor: StoredTensor, path: Path
) -> Iterator[Array]:
    """Yield the parameter's rows of a tensor, in the archive's conventions.

    Shapes: -> [rows, width], float32; width is the last dim, or 1 for a vector.

    Raises: IngotError for a value that is NaN or infinite.
    """
    _, width = _rows(wanted.piece)
    offset = wanted.convention(path).offset
    turned = wanted.form if is_turned(wanted) else None
    multiple = _multiple(wanted, path)
    for _, values in _checked_chunks(view(wanted, tensor), path, multiple, turned):
        block = values.reshape(-1, width)
        if offset:
            block = block + block.dtype.type(offset)
        yield _in_halves(block, wanted, path)


def _multiple(wanted: ParameterSpec, path: Path) -> int:
    """Return the number of rows whose multiples are converted at a time."""
    return math.lcm(_head_rows(wanted, path) or 1, wanted.tile_n)


def _head_rows(wanted: ParameterSpec, path: Path) -> int:
    """Return the rows of each head that are stored in pairs, or 0."""
    heads = wanted.convention(path).interleaved_heads
    return _rows(wanted.piece)[0] // heads if heads else 0


def _in_halves(block: Array, wanted: ParameterSpec, path: Path) -> Array:
    """Return rows 2i and 2i + 1 of each head as rows i and i + head_rows / 2."""
    head_rows = _head_rows(wanted, path)
    if not head_rows:
        return block
    width = block.shape[1]
    pairs = block.reshape(-1, head_rows // 2, 2, width)
    return pairs.swapaxes(1, 2).reshape(-1, width)


def hash_tensor(tensor: StoredTensor, path: Path) -> str:
    """Return the sha256 of the tensor's bytes in its source."""
    hasher = hashlib.sha256()
    for chunk in read_chunks(path, tensor, CHUNK_BYTES):
        hasher.update(chunk)
    return hasher.hexdigest()


def _checked_chunks(
    tensor: StoredTensor, path: Path, multiple: int, turned: SourceForm | None = None
) -> Iterator[tuple[memoryview, Array]]:
    """Yield the source's bytes and finite values, a multiple of rows at a time.

    With `turned`, the form of a tensor to reorder, the last chunk may be smaller,
    because the matrix itself has a multiple of rows.

    Shapes: -> [rows * width], float32.
    """
    _, width = _rows(tensor.shape)
    step = math.lcm(multiple, rows_of_blocks(tensor.element, width))
    step *= max(1, BLOCK_VALUES // (step * width))
    block_values, block_bytes = BLOCKS[tensor.element]
    chunk_bytes = step * width // block_values * block_bytes
    chunks = (
        turned_bytes(turned, tensor, path, step)
        if turned
        else read_chunks(path, tensor, chunk_bytes)
    )
    start = 0
    for chunk in chunks:
        values = decode(chunk, tensor.element)
        _check_finite(values, start, tensor)
        start += len(values)
        yield chunk, values


def _rows(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the number and width of the rows; a vector has one value per row."""
    if len(shape) < 2:
        return math.prod(shape), 1
    return math.prod(shape[:-1]), shape[-1]


def _append(
    blocks: Iterable[Array], wanted: ParameterSpec, label: str, scratch: IO[bytes]
) -> Content:
    offset = scratch.tell()
    hasher = hashlib.sha256()
    start = 0
    for block in blocks:
        data = _encoded(block, wanted, label, start)
        start += block.size
        hasher.update(data)
        scratch.write(data)
    size_bytes = math.prod(wanted.shape) * ITEM_BYTES[wanted.stored]
    return Content(Path(scratch.name), offset, size_bytes, hasher.hexdigest())


def _rounded_parts(
    blocks: Iterable[Array], wanted: ParameterSpec, label: str
) -> Iterator[dict[str, bytes]]:
    """Yield the parts of each block of rows, rounded to the stored type."""
    import numpy as np

    start = 0
    for block in blocks:
        if wanted.stored in SAFETENSORS:
            data = _encoded(block, wanted, label, start)
            bits = np.frombuffer(data, f"u{ITEM_BYTES[wanted.stored]}")
            rows = _whole_tiles(bits.reshape(block.shape), wanted.tile_n)
            parts = {"weight": grouped(rows, wanted.tile_n)}
        else:
            rows = _whole_tiles(block, wanted.tile_n)
            parts = quantised(rows, wanted.stored, wanted.tile_n)
            _check_scale(parts, block, wanted, label, start)
        start += block.size
        yield parts


def _whole_tiles(rows: Array, tile_n: int) -> Array:
    """Return the rows, and zeros that fill the last tile.

    Only the last rows of a matrix need them, because others come in whole tiles.
    """
    import numpy as np

    missing = -len(rows) % tile_n
    return np.pad(rows, ((0, missing), (0, 0))) if missing else rows


def _pack(
    blocks: Iterable[dict[str, bytes]], wanted: ParameterSpec, scratch: IO[bytes]
) -> list[Content]:
    """Append the parts of a matrix: the weight as it arrives, then the small parts."""
    made: dict[str, list[bytes]] = {part.argument: [] for part in wanted.parts}
    offset = scratch.tell()
    hasher = hashlib.sha256()
    for parts in blocks:
        weight = parts.pop("weight")
        hasher.update(weight)
        scratch.write(weight)
        for argument, data in parts.items():
            made[argument].append(data)
    path, found = Path(scratch.name), []
    for part in wanted.parts:
        size_bytes = math.prod(part.shape) * ITEM_BYTES[part.element]
        if part.argument == "weight":
            found.append(Content(path, offset, size_bytes, hasher.hexdigest()))
            continue
        place, hasher_of_part = scratch.tell(), hashlib.sha256()
        for data in made.pop(part.argument):
            hasher_of_part.update(data)
            scratch.write(data)
        found.append(Content(path, place, size_bytes, hasher_of_part.hexdigest()))
    return found


def _encoded(block: Array, wanted: ParameterSpec, label: str, start: int) -> bytes:
    """Return the values as they are stored; `start` is the index of the first.

    Raises: IngotError for a value beyond the stored type.
    """
    values = block.reshape(-1)
    data = encode(values, wanted.stored)
    beyond = first_not_finite(decode(memoryview(data), wanted.stored))
    if beyond is not None:
        raise _beyond(values[beyond], start + beyond, wanted, label)
    return data


def _check_scale(
    parts: dict[str, bytes], block: Array, wanted: ParameterSpec, label: str, start: int
) -> None:
    """Reject values whose scale exceeds the range of its type.

    Raises: IngotError that names the largest value.
    """
    import numpy as np

    # Regardless of the word size with which a layout reads them.
    element = "f32" if wanted.stored == "i8" else "f16"
    for argument, data in parts.items():
        if argument not in _scales(wanted.stored):
            continue
        if first_not_finite(decode(memoryview(data), element)) is not None:
            values = block.reshape(-1)
            largest = int(np.abs(values).argmax())
            raise _beyond(values[largest], start + largest, wanted, label)


def _scales(stored: str) -> tuple[str, ...]:
    """Return the parts that are floats; those of nested blocks are in outer ones."""
    if stored in SCHEMES and SCHEMES[stored].nested:
        return ("weight_super_scale", "weight_super_min")
    return ("weight_scale", "weight_min")


def _beyond(value: float, index: int, wanted: ParameterSpec, label: str) -> IngotError:
    return IngotError(
        f"{label}: tensor '{wanted.tensor}': a value is beyond the stored type;"
        f" expected a {wanted.stored}, found {value:g} at"
        f" {_place(index, wanted.shape)}",
        "store it as bf16 or f32: change 'stored' in the rule of weights.policy",
    )


def _check_finite(values: Array, start: int, tensor: StoredTensor) -> None:
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
