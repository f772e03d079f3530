"""Test packed weights at the dims of real decoders, and their oracles."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oracles import packed
from tests.component_cases import component_files, instance_of, signature_of
from tests.component_runs import (
    FAST_FLAGS,
    FLAGS,
    compiled,
    judge,
    judge_rows,
    shapes,
    specialized,
)

# Of Gemma 3 270M, SmolLM2 135M and Qwen 2 0.5B; rows of tables are fewer, as they are
# addresses. The last is of a CPU with AVX-512.
MAPS = (
    {"n_in": 640, "n_tile": 256, "tile_n": 8},
    {"n_in": 576, "n_tile": 24, "tile_n": 8},
    {"n_in": 4864, "n_tile": 112, "tile_n": 8},
    {"n_in": 640, "n_tile": 64, "tile_n": 16},
)
# One type of each source: at small dims the other ones of `!weight` are tried too.
ELEMENTS = (":bf16", "_i8", "_i8_block32", "_i4_block32")


def dims(suffix: str, name: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes by the dims of a component: of `name`, or of its blocks."""
    found = {"n_tile": sizes["n_tile"], "tile_n": sizes["tile_n"]}
    if suffix == "_i4_block32":
        del found["tile_n"]
    if suffix.endswith("block32"):
        return found | {"n_block": sizes["n_in"] // 32}
    return found | {name: sizes["n_in"]}


@pytest.mark.reads(
    files=lambda suffix, **_: component_files(f"linear/linear_packed{suffix}")
)
@pytest.mark.parametrize("seq", [None, 1])
@pytest.mark.parametrize("sizes", MAPS, ids=str)
@pytest.mark.parametrize("suffix", ELEMENTS)
def test_packed_map_computes_its_oracle_at_real_dims(
    suffix: str, sizes: dict[str, int], seq: int | None, tmp_path: Path
) -> None:
    signature = signature_of(f"linear/linear_packed{suffix}")
    fixed = dims(suffix, "n_in", sizes) | ({} if seq is None else {"seq": seq})
    source = specialized(instance_of(signature, fixed), tmp_path)
    # Bound to one position, the step for whole groups of them has to be gone.
    assert ("linalg.pack" in source.read_text("utf-8")) == (seq is None)
    forward = compiled(source, tmp_path, FLAGS + FAST_FLAGS)
    for found in shapes(signature, fixed):
        judge_rows(forward, signature, found)


@pytest.mark.reads(
    files=lambda suffix: component_files(f"embedding/embedding_lookup_packed{suffix}")
)
@pytest.mark.parametrize("suffix", ELEMENTS)
def test_packed_table_computes_its_oracle_at_real_dims(
    suffix: str, tmp_path: Path
) -> None:
    signature = signature_of(f"embedding/embedding_lookup_packed{suffix}")
    fixed = dims(suffix, "n_embd", MAPS[0])
    source = specialized(instance_of(signature, fixed), tmp_path)
    forward = compiled(source, tmp_path, FLAGS + FAST_FLAGS)
    for found in shapes(signature, fixed):
        judge(forward, signature, found, bound=True)


def test_unpacked_puts_tiles_into_rows_by_hand() -> None:
    weight = np.array([[[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]]])
    assert packed.unpacked(weight).tolist() == [
        [1, 3, 5],
        [2, 4, 6],
        [7, 9, 11],
        [8, 10, 12],
    ]


def test_packed_maps_are_the_formulas_of_their_headers() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 64))
    weight = rng.integers(-127, 128, (5, 64, 4)).astype(np.int8)
    scale = rng.random((5, 4))
    blocks = rng.random((5, 2, 4)).astype(np.float16)
    whole, by_block = weight.astype(float), weight.reshape(5, 2, 32, 4).astype(float)
    exact: Any = {"rtol": 1e-12, "atol": 1e-9}
    np.testing.assert_allclose(
        packed.linear_packed(x, whole).reshape(2, 3, 5, 4),
        np.einsum("bsi,tiv->bstv", x, whole),
        **exact,
    )
    np.testing.assert_allclose(
        packed.linear_packed_i8(x, weight, scale).reshape(2, 3, 5, 4),
        np.einsum("bsi,tiv->bstv", x, whole) * scale,
        **exact,
    )
    np.testing.assert_allclose(
        packed.linear_packed_i8_block32(x, weight.reshape(5, 2, 32, 4), blocks).reshape(
            2, 3, 5, 4
        ),
        np.einsum(
            "bskj,tkjv,tkv->bstv",
            x.reshape(2, 3, 2, 32),
            by_block,
            blocks.astype(float),
        ),
        **exact,
    )


def test_a_map_unpacks_what_a_processor_keeps_at_hand() -> None:
    rng = np.random.default_rng(2)
    weight = rng.standard_normal((4096, 64, 8)).astype(np.float32)
    x = rng.standard_normal((1, 1, 64))
    tracemalloc.start()
    found = packed.linear_packed(x, weight)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    expected = np.einsum("i,tiv->tv", x[0, 0], weight)
    np.testing.assert_allclose(found.ravel(), expected.ravel(), rtol=0, atol=1e-12)
    # Tiles as float64, once, and twice the results: parts, and their whole.
    assert peak_bytes < 2 * (1 << 20)
    assert 2 * found.nbytes < 1 << 20


def test_words_of_4_bits_hold_the_8_rows_of_a_tile_by_hand() -> None:
    # Codes -8 to -1, then 0 to 7, from the lowest bits up.
    words = np.array([0x76543210, 0xFEDCBA98 - (1 << 32)], np.int32)
    weight = np.resize(words, (1, 1, 32))
    scale = np.arange(1, 9, dtype=np.float16).reshape(1, 1, 8)
    plain = packed.unpacked_i4_block32(weight, scale)
    assert plain[:, 0].tolist() == [(v - 8) * (v + 1) for v in range(8)]
    assert plain[:, 1].tolist() == [v * (v + 1) for v in range(8)]
    x = np.zeros((1, 1, 32))
    x[..., 1] = 2.0
    found = packed.linear_packed_i4_block32(x, weight, scale)
    assert found.ravel().tolist() == (2 * plain[:, 1]).tolist()
    ids = np.array([[7, 0]], np.int32)
    rows = packed.embedding_lookup_packed_i4_block32(weight, scale, ids, 0.5)
    assert rows[0].tolist() == (plain[[7, 0]] * 0.5).tolist()


def test_packed_lookup_is_a_map_of_one_hot_rows() -> None:
    rng = np.random.default_rng(1)
    weight = rng.integers(-127, 128, (3, 2, 32, 4)).astype(np.int8)
    scale = rng.random((3, 2, 4)).astype(np.float16)
    ids = rng.integers(0, 12, (2, 5), dtype=np.int32)
    columns = packed.linear_packed_i8_block32(np.eye(64)[None], weight, scale)
    np.testing.assert_array_equal(
        packed.embedding_lookup_packed_i8_block32(weight, scale, ids, 2.0),
        columns[0].T[ids] * 2,
    )


@pytest.mark.parametrize("wrong", [-1, 12])
def test_packed_lookup_refuses_an_id_outside_the_table(wrong: int) -> None:
    ids = np.array([[0, wrong]], np.int32)
    with pytest.raises(IndexError):
        packed.embedding_lookup_packed(np.ones((3, 5, 4), np.float32), ids, 1.0)
