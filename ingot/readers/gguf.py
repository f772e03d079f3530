"""A GGUF file in, the place of every tensor in it out.

The header is read here and not by the `gguf` package, whose reader makes several
objects of every token of the vocabulary (16 s and 350 MB for 260 000 of them, here
0.4 s), and does not say of a file that was cut short what is wrong with it. What a type
is called and how large its blocks are is the package's to know. Nothing the header
claims is believed, or allocated, before the file's size bears it out.

Source: ggml-org/ggml, docs/gguf.md.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import IO

from ingot.errors import IngotError
from ingot.readers.safetensors import DOWNLOAD_AGAIN, StoredTensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
RANK_LIMIT = 4
DEFAULT_ALIGNMENT = 32  # bytes, where general.alignment says nothing
# Deeper arrays than any file has, shallower than the interpreter's stack.
NESTING_LIMIT = 4

_REWRITE = "the program that wrote the file is at fault: write it with llama.cpp"
_STRING, _ARRAY = 8, 9
# Bytes of a value, by its type; texts and arrays say their own length.
_VALUE_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def read_header(path: Path, shown: str) -> tuple[StoredTensor, ...]:
    """Return the tensors of the file in the order of their bytes; `shown` names it.

    Shapes are row-major: the reverse of what the file has.

    Raises: IngotError for the first defect of the header, or a file that ends early.
    """
    try:
        with path.open("rb") as file:
            return _read(_Cursor(file, shown))
    except OSError as error:
        raise IngotError(f"{shown}: cannot be read; {error.strerror}") from error


class _Cursor:
    """The bytes of a header, read in order and never past the end of the file."""

    def __init__(self, file: IO[bytes], shown: str) -> None:
        self.file = file
        self.shown = shown
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
        return IngotError(f"{self.shown}: {what}", hint)

    def _claim(self, count: int) -> None:
        self.offset += count
        if self.offset > self.size_bytes:
            raise self.error(
                f"the file ends inside its header; expected {self.offset} bytes or"
                f" more, found {self.size_bytes}",
                DOWNLOAD_AGAIN,
            )


def _read(cursor: _Cursor) -> tuple[StoredTensor, ...]:
    _check_magic(cursor)
    tensor_count, value_count = cursor.number(8), cursor.number(8)
    alignment = DEFAULT_ALIGNMENT
    for _ in range(value_count):
        key, kind = cursor.text(), cursor.number(4)
        if key == "general.alignment" and kind == 4:
            alignment = cursor.number(4)
        elif key == "split.count" and kind == 2:
            _check_whole(cursor, cursor.number(2))
        else:
            _skip_value(cursor, kind, key)
    if alignment < 1 or alignment % 8:
        raise cursor.error(
            f"general.alignment: expected a multiple of 8, found {alignment}"
        )
    found = [_tensor(cursor) for _ in range(tensor_count)]
    start = -(-cursor.offset // alignment) * alignment
    tensors = tuple(
        StoredTensor(name, element, shape, cursor.shown, start + offset, size_bytes)
        for name, element, shape, offset, size_bytes in sorted(
            found, key=lambda item: (item[3], item[4], item[0])
        )
    )
    _check_places(tensors, cursor)
    return tensors


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


def _skip_value(cursor: _Cursor, kind: int, key: str, depth: int = 0) -> None:
    if kind in _VALUE_BYTES:
        cursor.skip(_VALUE_BYTES[kind])
    elif kind == _STRING:
        cursor.skip(cursor.number(8))
    elif kind == _ARRAY and depth < NESTING_LIMIT:
        item, count = cursor.number(4), cursor.number(8)
        if item in _VALUE_BYTES:
            cursor.skip(_VALUE_BYTES[item] * count)
            return
        for _ in range(count):
            _skip_value(cursor, item, key, depth + 1)
    else:
        raise cursor.error(
            f"metadata {key!r}: expected a value of a type from 0 to 12, found {kind}"
        )


def _tensor(cursor: _Cursor) -> tuple[str, str, tuple[int, ...], int, int]:
    """Return name, type, shape, offset in the data and size in bytes."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    name, rank = cursor.text(), cursor.number(4)
    place = f"tensor {name!r}"
    if rank > RANK_LIMIT:
        raise cursor.error(f"{place}: expected at most {RANK_LIMIT} dims, found {rank}")
    # The file has the dim whose elements are neighbours first.
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
            raise cursor.error(f"tensor {tensor.name!r}: is there twice")
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
