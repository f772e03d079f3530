"""Test where the GGUF reader finds tensors, and its error for each kind of damage."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, GGUFWriter

from ingot.errors import IngotError
from ingot.weights.gguf import read_header
from tests.gguf_cases import random_blocks, write_gguf

AGAIN = "  the file is damaged or incomplete: fetch it again and pin its sha256"
REWRITE = "  the program that wrote the file is at fault: write it with llama.cpp"


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def value(key: str, kind: int, content: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + content


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    head = text(name) + struct.pack("<I", len(shape))
    return head + sizes + struct.pack("<IQ", kind, offset)


def header(
    tensors: list[bytes], values: list[bytes] | None = None, version: int = 3
) -> bytes:
    found = values or []
    counts = struct.pack("<IQQ", version, len(tensors), len(found))
    return b"GGUF" + counts + b"".join(found) + b"".join(tensors)


def padded(content: bytes, data: int, alignment: int = 32) -> bytes:
    return content + bytes(-len(content) % alignment + data)


def message(folder: Path, content: bytes) -> str:
    """Return the reader's error for a file."""
    path = folder / "w.gguf"
    path.write_bytes(content)
    with pytest.raises(IngotError) as caught:
        read_header(path, "w.gguf")
    return str(caught.value)


def test_tensors_are_where_the_gguf_package_finds_them(tmp_path: Path) -> None:
    def add(writer: GGUFWriter) -> None:
        writer.add_custom_alignment(64)
        writer.add_array("tokenizer.ggml.tokens", ["a", "bcd", ""])
        writer.add_array("tokenizer.ggml.scores", [1.0, 2.0])
        writer.add_bool("llama.flag", True)
        writer.add_float64("llama.number", 1.5)

    path = write_gguf(
        tmp_path / "w.gguf",
        {
            "a": ("F32", np.arange(3.0)),
            "b": ("BF16", np.ones((2, 3, 4))),
            "c": ("Q4_0", random_blocks("Q4_0", 5, 36, 18)),
        },
        add,
    )
    expected = [
        (
            item.name,
            item.tensor_type.name,
            tuple(map(int, reversed(item.shape))),
            item.data_offset,
            item.n_bytes,
        )
        for item in GGUFReader(path).tensors
    ]
    found = [
        (item.name, item.element, item.shape, item.offset, item.size_bytes)
        for item in read_header(path, "w.gguf")
    ]
    assert found == expected
    assert [str(item) for item in read_header(path, "w.gguf")] == [
        "F32[3]",
        "BF16[2, 3, 4]",
        "Q4_0[5, 64]",
    ]


def test_a_large_vocabulary_is_passed_over_quickly(tmp_path: Path) -> None:
    def add(writer: GGUFWriter) -> None:
        writer.add_array("tokens", [f"token {i}" for i in range(260_000)])

    path = write_gguf(tmp_path / "w.gguf", {"a": ("F32", np.ones(4))}, add)
    start = time.perf_counter()
    assert len(read_header(path, "w.gguf")) == 1
    # 0.4 s, where the package's reader took 16 s.
    assert time.perf_counter() - start < 5


ONE = tensor("a", (4,))

DEFECTS: dict[str, tuple[bytes, str]] = {
    "empty": (
        b"",
        f"not a GGUF file; expected it to begin with b'GGUF', found b''\n{AGAIN}",
    ),
    "zip": (
        b"PK\x03\x04" + bytes(40),
        "not a GGUF file; expected it to begin with b'GGUF', found b'PK\\x03\\x04'\n"
        "  this is a zip file, perhaps a PyTorch checkpoint",
    ),
    "archive": (
        b"IRPA" + bytes(40),
        "not a GGUF file; expected it to begin with b'GGUF', found b'IRPA'\n"
        "  this is an IREE parameter archive: kind: irpa",
    ),
    "version": (
        padded(header([ONE], version=1), 16),
        "a GGUF file of another kind; expected version 2 or 3, little-endian, found"
        " version 1\n"
        "  convert the model again with a current convert_hf_to_gguf.py",
    ),
    "big_endian": (
        padded(header([ONE], version=3 << 24), 16),
        "a GGUF file of another kind; expected version 2 or 3, little-endian, found a"
        " big-endian file\n"
        "  convert the model again with a current convert_hf_to_gguf.py",
    ),
    "cut_in_the_header": (
        header([ONE])[:50],
        "the file ends inside its header; expected 57 bytes or more, found 50\n"
        f"{AGAIN}",
    ),
    "absurd_length": (
        b"GGUF" + struct.pack("<IQQQ", 3, 1, 1, 2**60),
        "the file ends inside its header; expected 1152921504606847008 bytes or more,"
        f" found 32\n{AGAIN}",
    ),
    "cut_in_the_data": (
        padded(header([ONE]), 12),
        "tensor 'a': reaches past the end of the file; expected 80 bytes or more,"
        f" found 76\n{AGAIN}",
    ),
    "one_part": (
        padded(header([ONE], [value("split.count", 2, b"\3\0")]), 16),
        "one part of a model; expected all of it in one file, found 3 parts\n"
        "  join them: llama-gguf-split --merge FIRST_PART JOINED",
    ),
    "alignment": (
        padded(header([ONE], [value("general.alignment", 4, b"\3\0\0\0")]), 16),
        f"general.alignment: expected a multiple of 8, found 3\n{REWRITE}",
    ),
    "metadata_type": (
        padded(header([ONE], [value("x", 13, b"")]), 16),
        f"metadata 'x': expected a value of a type from 0 to 12, found 13\n{REWRITE}",
    ),
    "name": (
        padded(header([struct.pack("<Q", 2) + b"\xff\xfe" + bytes(40)]), 16),
        f"a name that is not UTF-8, b'\\xff\\xfe'\n{REWRITE}",
    ),
    "rank": (
        padded(header([tensor("a", (1, 1, 1, 1, 1))]), 16),
        f"tensor 'a': expected at most 4 dims, found 5\n{REWRITE}",
    ),
    "type": (
        padded(header([tensor("a", (4,), kind=99)]), 16),
        "tensor 'a': expected a known type, found type 99\n"
        "  the file is newer than the `gguf` package, or damaged: convert it again",
    ),
    "blocks": (
        padded(header([tensor("a", (40, 2), kind=8)]), 100),
        "tensor 'a': wrong shape; expected rows of whole blocks of 32 values for Q8_0,"
        f" found [2, 40]\n{REWRITE}",
    ),
    "twice": (
        padded(header([ONE, tensor("a", (4,), offset=32)]), 64),
        f"tensor 'a': occurs twice\n{REWRITE}",
    ),
    "overlap": (
        padded(header([ONE, tensor("b", (4,), offset=8)]), 64),
        "tensor 'b': overlaps 'a'; expected it to begin at byte 112 or later, found"
        f" 104\n{REWRITE}",
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_named(defect: str, tmp_path: Path) -> None:
    content, expected = DEFECTS[defect]
    assert message(tmp_path, content) == f"w.gguf: {expected}"


def test_a_file_cut_anywhere_is_an_error(tmp_path: Path) -> None:
    values = [value("k", 9, struct.pack("<IQ", 8, 2) + text("a") + text("b"))]
    whole = padded(header([ONE, tensor("b", (4,), offset=32)], values), 48)
    path = tmp_path / "w.gguf"
    path.write_bytes(whole)
    assert len(read_header(path, "w.gguf")) == 2
    for size in range(len(whole)):
        message(tmp_path, whole[:size])


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(IngotError, match=r"^w\.gguf: cannot be read; No such file"):
        read_header(tmp_path / "none.gguf", "w.gguf")
