"""Read the position of every tensor in a safetensors file, and the bytes of a tensor.

This module does not use the `safetensors` package, because the package maps whole files
and its errors name neither the file nor the expected value, while a header is easy to
check. No claim of the header is trusted, and no memory allocated for it, before the
file's size confirms it.

Source: huggingface/safetensors, README "Format" (header limit of 100 MB included).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot.errors import IngotError, did_you_mean
from ingot.weights.strict_json import parse_object, short

HEADER_LIMIT_BYTES = 100_000_000
# numpy allows 64 dims; more would be an attack on the multiplication of the sizes.
RANK_LIMIT = 64

ELEMENT_BITS = {
    "BOOL": 8,
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "U8": 8,
    "I8": 8,
    "F8_E5M2": 8,
    "F8_E4M3": 8,
    "F8_E8M0": 8,
    "F8_E5M2FNUZ": 8,
    "F8_E4M3FNUZ": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "C64": 64,
    "F64": 64,
    "I64": 64,
    "U64": 64,
}

DOWNLOAD_AGAIN = "the file is damaged or incomplete: fetch it again and pin its sha256"
REWRITE = "the program that wrote the file is at fault: write it with `safetensors`"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in a file: its type, its shape, and the position of its bytes."""

    name: str
    element: str  # as the file spells it: "F32", "BF16", "Q8_0"
    shape: tuple[int, ...]
    file: str  # as messages name it
    offset: int  # bytes from the start of the file
    size_bytes: int

    def __str__(self) -> str:
        """Return the type as messages write it: `F32[384, 1536]`."""
        return f"{self.element}[{', '.join(map(str, self.shape))}]"


def read_header(path: Path, label: str) -> tuple[StoredTensor, ...]:
    """Return the file's tensors in the order of their bytes.

    `label` names the file in messages.

    Raises: IngotError for the first error in the header, or for a file whose size does
        not match the header.
    """
    try:
        with path.open("rb") as file:
            size_bytes = os.fstat(file.fileno()).st_size
            header_bytes = _header_length(file.read(8), size_bytes, label)
            header = file.read(header_bytes)
    except OSError as error:
        raise IngotError(f"{label}: cannot be read; {error.strerror}") from error
    entries = parse_object(header, label)
    _check_metadata(entries.pop("__metadata__", {}), label)
    start = 8 + header_bytes
    tensors = sorted(
        (_tensor(name, entry, start, label) for name, entry in entries.items()),
        key=lambda tensor: (tensor.offset, tensor.size_bytes, tensor.name),
    )
    _check_contiguous(tensors, start, size_bytes, label)
    return tuple(tensors)


def read_chunks(
    path: Path, tensor: StoredTensor, chunk_bytes: int
) -> Iterator[memoryview]:
    """Yield the tensor's bytes in order, at most `chunk_bytes` at a time.

    Every chunk uses the same buffer: it is valid until the next one is requested.

    Raises: IngotError if the file ends before the tensor does.
    """
    buffer = memoryview(bytearray(min(chunk_bytes, tensor.size_bytes)))
    end = tensor.offset + tensor.size_bytes
    with path.open("rb", buffering=0) as file:
        file.seek(tensor.offset)
        while (offset := file.tell()) < end:
            wanted = buffer[: end - offset]
            filled = 0
            while filled < len(wanted) and (got := file.readinto(wanted[filled:])):
                filled += got
            if filled < len(wanted):
                raise IngotError(
                    f"{tensor.file}: tensor {tensor.name!r}: the file ends inside it;"
                    f" expected bytes up to {end}, found {offset + filled}",
                    DOWNLOAD_AGAIN,
                )
            yield wanted


def _header_length(prefix: bytes, size_bytes: int, label: str) -> int:
    if len(prefix) < 8:
        raise IngotError(
            f"{label}: not a safetensors file; expected 8 bytes of header length,"
            f" found {len(prefix)} bytes in all",
            DOWNLOAD_AGAIN,
        )
    length = int.from_bytes(prefix, "little")
    if length > HEADER_LIMIT_BYTES:
        raise IngotError(
            f"{label}: not a safetensors file; expected a header of at most"
            f" {HEADER_LIMIT_BYTES} bytes, found a length of {length}",
            _guess_format(prefix),
        )
    if length > size_bytes - 8:
        raise IngotError(
            f"{label}: the file ends inside its header; expected {8 + length} bytes"
            f" or more, found {size_bytes}",
            DOWNLOAD_AGAIN,
        )
    return length


def _guess_format(prefix: bytes) -> str:
    known = {
        b"PK\x03\x04": "this is a zip file, perhaps a PyTorch checkpoint: convert it",
        b"GGUF": "this is a GGUF file: kind: gguf",
        b"IRPA": "this is an IREE parameter archive: kind: irpa",
        b"version ": "this is a Git LFS pointer: run `git lfs pull`",
        b"<!DOCTYP": "this is a web page: the download needs another address",
    }
    return next(
        (hint for magic, hint in known.items() if prefix.startswith(magic)),
        DOWNLOAD_AGAIN,
    )


def _check_metadata(value: Any, label: str) -> None:
    texts = isinstance(value, dict) and all(
        isinstance(item, str) for item in value.values()
    )
    if not texts:
        raise IngotError(
            f"{label}: __metadata__: expected an object of texts, found {short(value)}",
            REWRITE,
        )


def _tensor(name: str, entry: Any, start: int, label: str) -> StoredTensor:
    def wrong(what: str, expected: str, found: Any, hint: str = REWRITE) -> IngotError:
        return IngotError(
            f"{label}: tensor {name!r}: {what}; expected {expected},"
            f" found {short(found)}",
            hint,
        )

    keys = ["data_offsets", "dtype", "shape"]
    if not isinstance(entry, dict) or sorted(entry) != keys:
        raise wrong("wrong keys", f"an object of {', '.join(keys)}", entry)
    element, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(element, str) or element not in ELEMENT_BITS:
        hint = did_you_mean(str(element), tuple(ELEMENT_BITS), "element types")
        raise wrong("dtype", "a known element type", element, hint)
    if not _is_sizes(shape):
        raise wrong("shape", f"a list of at most {RANK_LIMIT} sizes", shape)
    if not _is_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise wrong("data_offsets", "[begin, end] with 0 <= begin <= end", offsets)
    size_bytes = offsets[1] - offsets[0]
    size_bits = math.prod(shape) * ELEMENT_BITS[element]
    if size_bits != size_bytes * 8:
        expected = f"{short(size_bits)} bits for {element}{shape}"
        raise wrong("data_offsets do not fit the shape", expected, size_bytes * 8)
    return StoredTensor(
        name, element, tuple(shape), label, start + offsets[0], size_bytes
    )


def _is_sizes(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= RANK_LIMIT
        and all(type(item) is int and 0 <= item < 2**63 for item in value)
    )


def _check_contiguous(
    tensors: list[StoredTensor], start: int, size_bytes: int, label: str
) -> None:
    end, previous = start, "the header"
    for tensor in tensors:
        if tensor.offset != end:
            kind = "overlaps" if tensor.offset < end else "leaves a gap after"
            raise IngotError(
                f"{label}: tensor {tensor.name!r}: {kind} {previous}; expected it to"
                f" begin at byte {end}, found {tensor.offset}",
                REWRITE,
            )
        end, previous = tensor.offset + tensor.size_bytes, f"{tensor.name!r}"
        if end > size_bytes:
            raise IngotError(
                f"{label}: tensor {tensor.name!r}: reaches past the end of the file;"
                f" expected {end} bytes or more, found {size_bytes}",
                DOWNLOAD_AGAIN,
            )
    if end != size_bytes:
        raise IngotError(
            f"{label}: bytes after the last tensor; expected {end} bytes in all,"
            f" found {size_bytes}",
            DOWNLOAD_AGAIN,
        )
