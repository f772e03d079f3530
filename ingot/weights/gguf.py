"""Read the metadata of a GGUF file, and the position of every tensor in it.

This module reads the header itself, because the reader of the `gguf` package creates
several objects per token of the vocabulary (16 s and 350 MB for 260 000 tokens, where
this takes 0.4 s) and gives no reason when a file is truncated. The package only
supplies the names of types and the sizes of their blocks. No claim of the header is
trusted, and no memory allocated for it, before the file's size confirms it.

Source: ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ingot.errors import IngotError
from ingot.weights.safetensors import DOWNLOAD_AGAIN, StoredTensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
RANK_LIMIT = 4
DEFAULT_ALIGNMENT = 32  # bytes, if general.alignment is missing
# Deeper than the arrays of any file, but within the interpreter's stack.
NESTING_LIMIT = 4

_REWRITE = "the program that wrote the file is at fault: write it with llama.cpp"
_FLOAT32, _STRING, _ARRAY = 6, 8, 9
_LARGEST_FLOAT32 = 3.4028234663852886e38
# The `struct` format of a value, by its type; texts and arrays contain their length.
_VALUE_FORMATS = {
    **{0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"},
    **{10: "<Q", 11: "<q", 12: "<d"},
}
_VALUE_BYTES = {kind: struct.calcsize(text) for kind, text in _VALUE_FORMATS.items()}


@dataclass(frozen=True, slots=True)
class Array:
    """An array of the metadata, without its items."""

    count: int

    def __repr__(self) -> str:
        """Return it as messages quote it."""
        return f"an array of {self.count} items"


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """The part of a GGUF file before the weights."""

    metadata: dict[str, str | int | float | bool | Array]
    tensors: tuple[StoredTensor, ...]  # in the order of their bytes


def read_header(path: Path, label: str) -> tuple[StoredTensor, ...]:
    """Return the file's tensors in the order of their bytes.

    `label` names the file in messages.

    Raises: IngotError as `read_gguf`.
    """
    return read_gguf(path, label).tensors


def read_gguf(path: Path, label: str) -> GgufHeader:
    """Return the metadata and the tensors of the file; `label` names it in messages.

    Shapes are row-major: the reverse of the order in the file.

    Raises: IngotError for the first error in the header, or a truncated file.
    """
    try:
        with path.open("rb") as file:
            return _read(_Cursor(file, label))
    except OSError as error:
        raise IngotError(f"{label}: cannot be read; {error.strerror}") from error


def read_arrays(path: Path, label: str, keys: frozenset[str]) -> dict[str, list[Any]]:
    """Return the arrays of texts or numbers that the metadata holds under these keys.

    Raises: IngotError as `read_gguf`, or for a text that is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            cursor = _Cursor(file, label, keys)
            _read(cursor)
            return cursor.arrays
    except OSError as error:
        raise IngotError(f"{label}: cannot be read; {error.strerror}") from error


class _Cursor:
    """The bytes of a header, read in order and never past the end of the file."""

    def __init__(
        self, file: IO[bytes], label: str, kept: frozenset[str] = frozenset()
    ) -> None:
        self.file = file
        self.label = label
        self.kept = kept  # keys of arrays to read, not to skip
        self.arrays: dict[str, list[Any]] = {}
        self.size_bytes = os.fstat(file.fileno()).st_size
        self.offset = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        self._claim(count)
        return self.file.read(count)

    def skip(self, count: int) -> None:
        """Pass over the next bytes."""
        self._claim(count)
        self.file.seek(count, os.SEEK_CUR)

    def number(self, count: int) -> int:
        """Return the next little-endian number of so many bytes."""
        return int.from_bytes(self.take(count), "little")

    def text(self) -> str:
        """Return the next text."""
        content = self.take(self.number(8))
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise self.error(f"a name that is not UTF-8, {content!r}") from error

    def error(self, what: str, hint: str = _REWRITE) -> IngotError:
        """Return an error that names the file."""
        return IngotError(f"{self.label}: {what}", hint)

    def _claim(self, count: int) -> None:
        self.offset += count
        if self.offset > self.size_bytes:
            raise self.error(
                f"the file ends inside its header; expected {self.offset} bytes or"
                f" more, found {self.size_bytes}",
                DOWNLOAD_AGAIN,
            )


def _read(cursor: _Cursor) -> GgufHeader:
    _check_magic(cursor)
    tensor_count, value_count = cursor.number(8), cursor.number(8)
    metadata: dict[str, str | int | float | bool | Array] = {}
    for _ in range(value_count):
        key, kind = cursor.text(), cursor.number(4)
        metadata[key] = _value(cursor, kind, key)
    parts = metadata.get("split.count")
    if isinstance(parts, int):
        _check_whole(cursor, parts)
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment % 8:
        raise cursor.error(
            f"general.alignment: expected a multiple of 8, found {alignment}"
        )
    found = [_tensor(cursor) for _ in range(tensor_count)]
    start = -(-cursor.offset // alignment) * alignment
    tensors = tuple(
        StoredTensor(name, element, shape, cursor.label, start + offset, size_bytes)
        for name, element, shape, offset, size_bytes in sorted(
            found, key=lambda item: (item[3], item[4], item[0])
        )
    )
    _check_places(tensors, cursor)
    return GgufHeader(metadata, tensors)


def _check_magic(cursor: _Cursor) -> None:
    magic = cursor.file.read(4)
    if magic != MAGIC:
        known = {
            b"PK\x03\x04": "this is a zip file, perhaps a PyTorch checkpoint",
            b"IRPA": "this is an IREE parameter archive: kind: irpa",
            b"vers": "this is a Git LFS pointer: run `git lfs pull`",
            b"<!DO": "this is a web page: the download needs another address",
        }
        raise cursor.error(
            f"not a GGUF file; expected it to begin with {MAGIC!r}, found {magic!r}",
            known.get(magic, DOWNLOAD_AGAIN),
        )
    cursor.offset = len(MAGIC)
    version = cursor.number(4)
    if version not in VERSIONS:
        # A big-endian file has its version in the upper bytes.
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in VERSIONS
        raise cursor.error(
            "a GGUF file of another kind; expected version"
            f" {' or '.join(map(str, VERSIONS))}, little-endian, found"
            f" {'a big-endian file' if swapped else f'version {version}'}",
            "convert the model again with a current convert_hf_to_gguf.py",
        )


def _check_whole(cursor: _Cursor, parts: int) -> None:
    if parts > 1:
        raise cursor.error(
            f"one part of a model; expected all of it in one file, found {parts} parts",
            "join them: llama-gguf-split --merge FIRST_PART JOINED",
        )


def _value(cursor: _Cursor, kind: int, key: str) -> str | int | float | bool | Array:
    """Return a value of the metadata; of an array, the number of items."""
    if kind == _FLOAT32:
        return _shortest(cursor.take(4))
    if kind in _VALUE_FORMATS:
        found: int | float | bool = struct.unpack(
            _VALUE_FORMATS[kind], cursor.take(_VALUE_BYTES[kind])
        )[0]
        return found
    if kind == _STRING:
        # Invalid UTF-8 in templates and descriptions does no harm.
        return cursor.take(cursor.number(8)).decode(errors="replace")
    return Array(_skip_array(cursor, kind, key))


def _shortest(content: bytes) -> float:
    """Return the shortest decimal of this float32: 1e-06, not 9.99999997e-07."""
    found: float = struct.unpack("<f", content)[0]
    for digits in range(1, 9):
        shorter = float(f"{found:.{digits}g}")
        # Rounding up may leave the range of a float32.
        if abs(shorter) <= _LARGEST_FLOAT32 and struct.pack("<f", shorter) == content:
            return shorter
    return found


def _skip_array(cursor: _Cursor, kind: int, key: str, depth: int = 0) -> int:
    """Skip an array; return the number of its items."""
    if kind != _ARRAY or depth >= NESTING_LIMIT:
        raise cursor.error(
            f"metadata {key!r}: expected a value of a type from 0 to 12, found {kind}"
        )
    item, count = cursor.number(4), cursor.number(8)
    if key in cursor.kept and depth == 0 and item != _ARRAY:
        cursor.arrays[key] = _read_array(cursor, item, count, key)
        return count
    if item in _VALUE_BYTES:
        cursor.skip(_VALUE_BYTES[item] * count)
        return count
    for _ in range(count):
        if item == _STRING:
            cursor.skip(cursor.number(8))
        else:
            _skip_array(cursor, item, key, depth + 1)
    return count


def _read_array(cursor: _Cursor, item: int, count: int, key: str) -> list[Any]:
    if item in _VALUE_FORMATS:
        content = cursor.take(_VALUE_BYTES[item] * count)
        return list(struct.unpack(f"<{count}{_VALUE_FORMATS[item][1]}", content))
    if item != _STRING:
        raise cursor.error(
            f"metadata {key!r}: expected items of a type from 0 to 12, found {item}"
        )
    return [cursor.text() for _ in range(count)]


def _tensor(cursor: _Cursor) -> tuple[str, str, tuple[int, ...], int, int]:
    """Return name, type, shape, offset in the data and size in bytes."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name, rank = cursor.text(), cursor.number(4)
    place = f"tensor {name!r}"
    if rank > RANK_LIMIT:
        raise cursor.error(f"{place}: expected at most {RANK_LIMIT} dims, found {rank}")
    # The file lists the contiguous dim first.
    shape = tuple(cursor.number(8) for _ in range(rank))[::-1]
    number, offset = cursor.number(4), cursor.number(8)
    try:
        element = GGMLQuantizationType(number)
    except ValueError as error:
        raise cursor.error(
            f"{place}: expected a known type, found type {number}",
            "the file is newer than the `gguf` package, or damaged: convert it again",
        ) from error
    block, block_bytes = GGML_QUANT_SIZES[element]
    width = shape[-1] if shape else 1
    if width % block:
        raise cursor.error(
            f"{place}: wrong shape; expected rows of whole blocks of {block} values"
            f" for {element.name}, found {list(shape)}"
        )
    size_bytes = math.prod(shape) // block * block_bytes
    return name, element.name, shape, offset, size_bytes


def _check_places(tensors: tuple[StoredTensor, ...], cursor: _Cursor) -> None:
    names: set[str] = set()
    end, previous = cursor.offset, "the header"
    for tensor in tensors:
        if tensor.name in names:
            raise cursor.error(f"tensor {tensor.name!r}: occurs twice")
        names.add(tensor.name)
        if tensor.offset < end:
            raise cursor.error(
                f"tensor {tensor.name!r}: overlaps {previous}; expected it to begin at"
                f" byte {end} or later, found {tensor.offset}"
            )
        end, previous = tensor.offset + tensor.size_bytes, f"{tensor.name!r}"
        if end > cursor.size_bytes:
            raise cursor.error(
                f"tensor {tensor.name!r}: reaches past the end of the file; expected"
                f" {end} bytes or more, found {cursor.size_bytes}",
                DOWNLOAD_AGAIN,
            )
