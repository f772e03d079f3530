"""Test the error of the safetensors reader for each kind of damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingot.errors import IngotError
from ingot.weights.safetensors import read_chunks, read_header
from tests.weights_cases import TWO, entry, message, write

DEFECTS: dict[str, tuple[Any, bytes, str]] = {
    "not_utf8": (
        b'{"\xff": 1}',
        b"",
        "w.safetensors: not UTF-8; found byte 0xff at 2 of the JSON text",
    ),
    "not_json": (
        b'{"a": }',
        b"",
        "w.safetensors: not JSON; Expecting value: line 1 column 7 (char 6)",
    ),
    "nan_in_json": (
        b'{"a": NaN}',
        b"",
        "w.safetensors: not JSON; 'NaN' is not a JSON number",
    ),
    "not_an_object": (
        [1],
        b"",
        "w.safetensors: expected a JSON object, found [1]",
    ),
    "repeated_tensor": (
        b'{"a": 1, "a": 2}',
        b"",
        "w.safetensors: key 'a' is written twice in one object",
    ),
    "repeated_key": (
        b'{"a": {"dtype": "F32", "dtype": "F32"}}',
        b"",
        "w.safetensors: key 'dtype' is written twice in one object",
    ),
    "metadata_of_numbers": (
        {"__metadata__": {"format": 1}},
        b"",
        "w.safetensors: __metadata__: expected an object of texts, found {'format': 1}",
    ),
    "missing_key": (
        {"a": {"dtype": "F32", "shape": []}},
        b"",
        "w.safetensors: tensor 'a': wrong keys; expected an object of data_offsets,"
        " dtype, shape, found {'dtype': 'F32', 'shape': []}",
    ),
    "unknown_dtype": (
        {"a": entry([1], 0, 4, "F33")},
        b"abcd",
        "w.safetensors: tensor 'a': dtype; expected a known element type,"
        " found 'F33'\n  did you mean 'F32'?",
    ),
    "negative_size": (
        {"a": entry([-1], 0, 4)},
        b"abcd",
        "w.safetensors: tensor 'a': shape; expected a list of at most 64 sizes,"
        " found [-1]",
    ),
    "bool_size": (
        {"a": entry([True], 0, 4)},
        b"abcd",
        "w.safetensors: tensor 'a': shape; expected a list of at most 64 sizes,"
        " found [True]",
    ),
    "offsets_backwards": (
        {"a": entry([1], 4, 0)},
        b"abcd",
        "w.safetensors: tensor 'a': data_offsets; expected [begin, end] with"
        " 0 <= begin <= end, found [4, 0]",
    ),
    "three_offsets": (
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}},
        b"abcd",
        "w.safetensors: tensor 'a': data_offsets; expected [begin, end] with"
        " 0 <= begin <= end, found [0, 4, 8]",
    ),
    "size_of_another_shape": (
        {"a": entry([3], 0, 8)},
        b"12345678",
        "w.safetensors: tensor 'a': data_offsets do not fit the shape;"
        " expected 96 bits for F32[3], found 64",
    ),
    "terabytes": (
        {"a": entry([2**20, 2**20], 0, 2**42)},
        b"",
        "w.safetensors: tensor 'a': reaches past the end of the file;"
        " expected 4398046511200 bytes or more, found 96",
    ),
    "truncated_data": (
        TWO,
        b"x" * 15,
        "w.safetensors: tensor 'b': reaches past the end of the file;"
        " expected 147 bytes or more, found 146",
    ),
    "trailing_data": (
        TWO,
        b"x" * 17,
        "w.safetensors: bytes after the last tensor; expected 147 bytes in all,"
        " found 148",
    ),
    "gap": (
        {"a": entry([1], 0, 4), "b": entry([1], 8, 12)},
        b"x" * 12,
        "w.safetensors: tensor 'b': leaves a gap after 'a'; expected it to begin at"
        " byte 135, found 139",
    ),
    "gap_after_header": (
        {"b": entry([1], 4, 8)},
        b"x" * 8,
        "w.safetensors: tensor 'b': leaves a gap after the header; expected it to"
        " begin at byte 69, found 73",
    ),
    "overlap": (
        {"a": entry([2], 0, 8), "b": entry([2], 4, 12)},
        b"x" * 12,
        "w.safetensors: tensor 'b': overlaps 'a'; expected it to begin at byte 139,"
        " found 135",
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_is_named(defect: str, tmp_path: Path) -> None:
    header, data, expected = DEFECTS[defect]
    found = message(write(tmp_path / "w.safetensors", header, data))
    assert found[: len(expected)] == expected
    assert "\n  " in found


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"",
            "w.safetensors: not a safetensors file; expected 8 bytes of header length,"
            " found 0 bytes in all\n  the file is damaged or incomplete: fetch it again"
            " and pin its sha256",
        ),
        (
            b"PK\x03\x04" + b"x" * 60,
            "w.safetensors: not a safetensors file; expected a header of at most"
            " 100000000 bytes, found a length of 8680820738615364432\n  this is a zip"
            " file, perhaps a PyTorch checkpoint: convert it",
        ),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "w.safetensors: not a safetensors file; expected a header of at most"
            " 100000000 bytes, found a length of 2336927755350992246\n  this is a Git"
            " LFS pointer: run `git lfs pull`",
        ),
        (
            (99).to_bytes(8, "little") + b"{}",
            "w.safetensors: the file ends inside its header; expected 107 bytes or"
            " more, found 10\n  the file is damaged or incomplete: fetch it again and"
            " pin its sha256",
        ),
    ],
    ids=["empty", "zip", "lfs_pointer", "truncated_header"],
)
def test_a_file_of_another_kind_is_recognised(
    content: bytes, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(content)
    assert message(path) == expected


def test_a_missing_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    assert message(tmp_path / "none") == (
        "w.safetensors: cannot be read; No such file or directory"
    )


def test_a_file_cut_after_its_header_was_read_is_noticed(tmp_path: Path) -> None:
    path = write(tmp_path / "w.safetensors", TWO, b"x" * 16)
    tensor = read_header(path, "w.safetensors")[1]
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(IngotError, match="tensor 'b': the file ends inside it"):
        list(read_chunks(path, tensor, 1 << 20))
