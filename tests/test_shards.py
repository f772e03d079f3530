"""Test what the index of a sharded checkpoint may state, and what must match it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from ingot.errors import IngotError
from ingot.weights.safetensors import StoredTensor, read_header
from ingot.weights.shards import check_index, read_index
from tests.weights_cases import entry, write


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
