"""The safetensors reader: what it reads, and what it says of each defect."""

from __future__ import annotations

import dataclasses
import json
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from ingot.errors import IngotError
from ingot.readers.safetensors import StoredTensor, read_chunks, read_header
from ingot.readers.shards import check_index, read_index


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write(path: Path, header: Any, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def message(path: Path) -> str:
    with pytest.raises(IngotError) as caught:
        read_header(path, "w.safetensors")
    return str(caught.value)


def test_tensors_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": entry([2, 2], 0, 16),
        "a": entry([3], 16, 22, "BF16"),
        "empty": entry([0, 7], 16, 16),
        "scalar": entry([], 22, 30, "I64"),
    }
    path = write(tmp_path / "w.safetensors", header, bytes(range(30)))
    tensors = read_header(path, "w.safetensors")
    assert [tensor.name for tensor in tensors] == ["b", "empty", "a", "scalar"]
    assert [str(tensor) for tensor in tensors] == [
        "F32[2, 2]",
        "F32[0, 7]",
        "BF16[3]",
        "I64[]",
    ]
    data = {
        tensor.name: b"".join(map(bytes, read_chunks(path, tensor, 5)))
        for tensor in tensors
    }
    assert data == {
        "b": bytes(range(16)),
        "empty": b"",
        "a": bytes(range(16, 22)),
        "scalar": bytes(range(22, 30)),
    }


def test_padding_after_the_header_is_read_over(tmp_path: Path) -> None:
    text = json.dumps({"a": entry([1], 0, 4)}).encode() + b"   "
    path = write(tmp_path / "w.safetensors", text, b"abcd")
    (tensor,) = read_header(path, "w.safetensors")
    assert [bytes(chunk) for chunk in read_chunks(path, tensor, 64)] == [b"abcd"]


TWO = {"a": entry([2], 0, 8), "b": entry([2], 8, 16)}
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


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a": ' * 5_000,
        b'{"a": {"dtype": "F32", "shape": [' + b"9" * 5000 + b"]}}",
        json.dumps({"a": entry([2**62] * 64, 0, 4)}).encode(),
        json.dumps({"a": entry([2**62] * 100_000, 0, 4)}).encode(),
        json.dumps({"x" * 100_000: 1}).encode(),
    ],
    ids=["deep", "nested", "huge_number", "huge_product", "huge_rank", "long_name"],
)
def test_hostile_headers_cost_little(text: bytes, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF)
    message(write(tmp_path / "w.safetensors", text))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_maxrss - before.ru_maxrss < 50_000  # KiB
    assert after.ru_utime - before.ru_utime < 2  # s


def _library(path: Path) -> dict[str, tuple[str, list[int]]] | None:
    try:
        with safetensors.safe_open(path, "np") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            return {
                name: (item.get_dtype(), item.get_shape())
                for name, item in slices.items()
            }
    except Exception:
        return None


def test_damaged_headers_are_refused_or_read_as_the_library_reads_them(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(7)
    header = {
        "__metadata__": {"format": "pt"},
        **TWO,
        "c": entry([1, 2], 16, 20, "F16"),
    }
    good = write(tmp_path / "good", header, b"x" * 20).read_bytes()
    refused = 0
    for _ in range(3000):
        damaged = bytearray(good)
        for _ in range(rng.integers(1, 3)):
            damaged[rng.integers(len(good) - 20)] = rng.choice(
                np.frombuffer(b'0123456789{}[],:"FabU \xff\x00', np.uint8)
            )
        path = tmp_path / "damaged"
        path.write_bytes(damaged)
        try:
            found = read_header(path, "damaged")
        except IngotError:
            refused += 1
            continue
        assert _library(path) == {
            item.name: (item.element, list(item.shape)) for item in found
        }
    assert 1000 < refused < 3000


def test_a_real_model_is_read_as_the_library_reads_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    arrays = {
        "f": rng.standard_normal((3, 5), dtype=np.float32),
        "h": rng.standard_normal((7,)).astype(np.float16),
        "i": np.arange(4),
    }
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(arrays, path, metadata={"format": "pt"})
    for tensor in read_header(path, "model.safetensors"):
        data = b"".join(map(bytes, read_chunks(path, tensor, 6)))
        assert data == arrays[tensor.name].tobytes()


def _sharded(folder: Path) -> tuple[dict[str, str], tuple[StoredTensor, ...]]:
    one = write(folder / "1.safetensors", {"a": entry([1], 0, 4)}, b"aaaa")
    two = write(folder / "2.safetensors", {"b": entry([1], 0, 4)}, b"bbbb")
    tensors = (
        *read_header(one, "m/1.safetensors"),
        *read_header(two, "m/2.safetensors"),
    )
    return {"a": "1.safetensors", "b": "2.safetensors"}, tensors


def test_shards_fit_their_index(tmp_path: Path) -> None:
    index, tensors = _sharded(tmp_path)
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": index}))
    assert read_index(path, "index.json") == index
    check_index(index, tensors, "index.json")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"c": "2.safetensors"},
            "index.json: tensor 'c': not where the index says; expected it in"
            " '2.safetensors', found none",
        ),
        (
            {"b": "1.safetensors"},
            "m/2.safetensors: tensor 'b': not where index.json says; expected it in"
            " '1.safetensors', found it here",
        ),
    ],
    ids=["missing_tensor", "wrong_shard"],
)
def test_an_index_that_does_not_fit_is_an_error(
    change: dict[str, str], expected: str, tmp_path: Path
) -> None:
    index, tensors = _sharded(tmp_path)
    with pytest.raises(IngotError) as caught:
        check_index(index | change, tensors, "index.json")
    assert caught.value.message == expected


def test_a_tensor_in_two_shards_is_an_error(tmp_path: Path) -> None:
    index, tensors = _sharded(tmp_path)
    twice = dataclasses.replace(tensors[0], file="m/2.safetensors")
    with pytest.raises(IngotError) as caught:
        check_index(index, (*tensors, twice), "index.json")
    assert caught.value.message == (
        "m/2.safetensors: tensor 'a': not where index.json says; expected it in"
        " '1.safetensors', found it here"
    )


def test_a_tensor_that_the_index_does_not_name_is_an_error(tmp_path: Path) -> None:
    index, tensors = _sharded(tmp_path)
    del index["b"]
    with pytest.raises(IngotError) as caught:
        check_index(index, tensors, "index.json")
    assert caught.value.message == (
        "m/2.safetensors: tensor 'b': not where index.json says; expected it in"
        " 'none', found it here"
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            {"weight_map": {"a": "../../secret"}},
            "index.json: weight_map['a']: expected the name of a file in the same"
            " folder, found '../../secret'",
        ),
        (
            {"weight_map": {}},
            "index.json: weight_map: expected an object of tensor names to file names,"
            " found {}",
        ),
        (
            {},
            "index.json: weight_map: expected an object of tensor names to file names,"
            " found None",
        ),
    ],
    ids=["path_out_of_the_folder", "empty_map", "no_map"],
)
def test_an_index_names_files_beside_it(
    content: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "index.json"
    path.write_text(json.dumps(content))
    with pytest.raises(IngotError) as caught:
        read_index(path, "index.json")
    assert caught.value.message == expected
