"""Test how a layout's kernels replace a model's components and pack its weights."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ingot.errors import IngotError
from ingot.model.component import Components
from ingot.model.graph import Graph
from ingot.model.layout import Layout, read_layout
from ingot.model.manifest import read_manifest
from ingot.model.oracle import token_limit
from ingot.model.select_kernels import select_kernels
from ingot.weights.packing import grouped, quantised
from ingot.weights.quantise import dequantise, quantise, quantise_rows
from oracles.packed import (
    unpacked,
    unpacked_i4_block32,
    unpacked_i8,
    unpacked_i8_block32,
)
from tests import toy_decoder
from tests.project import ROOT

PACKED_N8 = read_layout(ROOT / "targets/layouts/packed_n8.yaml", ROOT)
PACKED_N16 = read_layout(ROOT / "targets/layouts/packed_n16.yaml", ROOT)
PACKED_U32 = read_layout(ROOT / "targets/layouts/packed_u32.yaml", ROOT)
PLAIN = read_layout(ROOT / "targets/layouts/plain.yaml", ROOT)
RNG = np.random.default_rng(3)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return toy_decoder.read(tmp_path_factory.mktemp("toy"))


def lowered(graph: Graph, stored: str, layout: Layout = PACKED_N8) -> Graph:
    return select_kernels(graph, lambda name: stored, layout, Components(ROOT))


def parameters(graph: Graph) -> dict[str, str]:
    return {item.name: str(item.type) for item in graph.parameters}


def test_a_layout_has_the_kernels_of_the_one_that_it_extends(graph: Graph) -> None:
    assert PACKED_N16.decode == PACKED_N8.decode
    own, inherited = PACKED_N16.kernels, PACKED_N8.kernels
    assert own.keys() == inherited.keys()
    differ = [
        stored
        for component, by_type in inherited.items()
        for stored, kernel in by_type.items()
        if own[component][stored] != kernel
    ]
    assert differ == ["i8_block32", "q8_0"]
    rows, columns = graph.parameters[0].type.shape
    assert isinstance(rows, int)
    for stored in ("f32", "i8"):
        found = parameters(lowered(graph, stored, PACKED_N16))["token_embd.weight"]
        assert found == f"{stored}[{rows // 16}, {columns}, 16]"
    # Words have 8 rows, whatever the layout's tile_n.
    assert PACKED_N16.rows_of_tile("q4_k") == PACKED_N8.rows_of_tile("q4_k") == 8


@pytest.mark.parametrize(
    ("extends", "message"),
    [
        ("base", ""),
        ("bose", "no layout named 'bose'\n  did you mean 'base'?"),
        ("wide", "'wide' extends 'base' itself\n  extend 'base'"),
    ],
)
def test_a_layout_extends_a_layout_that_extends_none(
    extends: str, message: str, tmp_path: Path
) -> None:
    folder = tmp_path / "targets/layouts"
    folder.mkdir(parents=True)
    for name, last in {"base": "", "wide": "base", "mine": extends}.items():
        line = f"extends: {last}\n" if last else ""
        text = f"layout: {name}\nsummary: some\ntile_n: 4\n{line}"
        (folder / f"{name}.yaml").write_text(text, "utf-8")
    if not message:
        assert read_layout(folder / "mine.yaml", tmp_path).tile_n == 4
        return
    with pytest.raises(ExceptionGroup) as caught:
        read_layout(folder / "mine.yaml", tmp_path)
    (error,) = caught.value.exceptions
    assert str(error) == f"targets/layouts/mine.yaml:4:10: extends: {message}"


def test_without_kernels_the_graph_stays_but_for_its_layout(graph: Graph) -> None:
    assert lowered(graph, "f32", PLAIN) == graph


def test_matrices_are_packed_and_vectors_and_tables_are_not(graph: Graph) -> None:
    before, after = parameters(graph), parameters(lowered(graph, "f32"))
    rows, columns = graph.parameters[0].type.shape
    assert isinstance(rows, int)
    assert before["token_embd.weight"] == f"f32[{rows}, {columns}]"
    assert after["token_embd.weight"] == f"f32[{rows // 8}, {columns}, 8]"
    for name in ("rope_local.table", "blk.0.attn_norm.weight"):
        assert after[name] == before[name]


def test_an_8_bit_matrix_has_a_scale_for_each_row_beside_it(graph: Graph) -> None:
    made = lowered(graph, "i8")
    names = [item.name for item in made.parameters]
    place = names.index("blk.0.attn_q.weight")
    assert names[place + 1] == "blk.0.attn_q.weight.scale"
    codes, scale = made.parameters[place : place + 2]
    assert codes.packing
    assert scale.packing
    assert (codes.type.element, scale.type.element) == ("i8", "f32")
    assert scale.packing == replace(codes.packing, part="weight_scale")
    assert scale.type.shape == (codes.packing.shape[0] // 8, 8)


def test_every_use_of_a_matrix_calls_the_kernel_of_its_stored_type(
    graph: Graph,
) -> None:
    made = lowered(graph, "i8")
    used = {made.instance(call.instance).component for call in calls(made)}
    assert {"linear/linear", "embedding/embedding_lookup"}.isdisjoint(used)
    assert {"linear/linear_packed_i8", "embedding/embedding_lookup_packed_i8"} <= used
    # A component that does not scale is a kernel that scales by one.
    (lookup,) = {
        call.scalars
        for call in calls(made)
        if "lookup" in made.instance(call.instance).component
    }
    assert lookup == (1.0,)


@pytest.mark.parametrize(
    "layout", [PACKED_N8, PACKED_U32], ids=["packed_n8", "packed_u32"]
)
def test_a_packed_table_has_the_rows_of_its_matrix(
    graph: Graph, layout: Layout
) -> None:
    made = lowered(graph, "i8", layout)
    for entry in made.entry_points:
        assert token_limit(made, entry, "tokens") == 48


def calls(graph: Graph) -> list:  # type: ignore[type-arg]
    return [
        call
        for entry in graph.entry_points
        for block in entry.blocks
        for call in block.calls
    ]


def test_one_new_token_has_a_kernel_where_the_layout_has_one() -> None:
    mixture = read_manifest(ROOT / "models/toy-moe.yaml", ROOT).graph
    found = {}
    for layout in (PACKED_N8, PACKED_U32):
        made = lowered(mixture, "f32", layout)
        for entry in made.entry_points:
            (used,) = {
                (made.instance(call.instance).component, call.layered, call.scalars[1:])
                for block in entry.blocks
                for call in block.calls
                if call.name == "attn"
            }
            found[layout.name, entry.name] = used
    component, *numbers = found["packed_n8", "prefill"]
    assert component == "attention/attention_paged"
    expected = dict.fromkeys(found, (component, *numbers))
    expected["packed_n8", "decode"] = (f"{component}_decode", *numbers)
    assert found == expected


def test_a_kernel_takes_what_the_component_takes() -> None:
    mixture = read_manifest(ROOT / "models/toy-moe.yaml", ROOT).graph
    other = {"attention/attention_paged": "attention/attention_causal"}
    with pytest.raises(IngotError) as caught:
        lowered(mixture, "f32", replace(PACKED_N8, decode=other))
    assert str(caught.value) == (
        "components/attention/attention_causal.mlir: no kernel of"
        " attention/attention_paged: its arguments or results are others"
    )


def test_a_kernel_drops_no_argument() -> None:
    encoder = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT).graph
    without_bias = PACKED_U32.kernels["linear/linear"]
    kernels = {**PACKED_U32.kernels, "linear/linear_bias": without_bias}
    with pytest.raises(IngotError) as caught:
        lowered(encoder, "f32", replace(PACKED_U32, kernels=kernels))
    assert str(caught.value) == (
        "components/linear/linear_packed_u32_f32.mlir: no kernel of linear/linear_bias:"
        " its arguments or results are others"
    )


def test_a_kernel_is_for_the_stored_types_that_its_weight_may_have(
    graph: Graph,
) -> None:
    of_linear = PACKED_N8.kernels["linear/linear"]
    by_type = {**of_linear, "i8": of_linear["f32"]}
    kernels = {**PACKED_N8.kernels, "linear/linear": by_type}
    with pytest.raises(IngotError) as caught:
        lowered(graph, "i8", replace(PACKED_N8, kernels=kernels))
    assert str(caught.value) == (
        "components/linear/linear_packed.mlir: its weight cannot be i8, which"
        " targets/layouts/packed_n8.yaml asks for\n  expected one of f32, bf16, f16"
    )


def test_results_have_the_types_that_they_had(graph: Graph) -> None:
    for stored in ("f32", "bf16", "i8"):
        made = lowered(graph, stored)
        for old, new in zip(graph.entry_points, made.entry_points, strict=True):
            assert [b.types for b in old.blocks] == [b.types for b in new.blocks]


def test_a_stored_type_without_a_kernel_is_refused_with_those_that_there_are(
    graph: Graph,
) -> None:
    with pytest.raises(IngotError) as caught:
        lowered(graph, "i8", PLAIN)
    assert str(caught.value) == (
        "toy-decoder: parameter 'token_embd.weight' cannot be stored as i8; layout"
        " 'plain' has no kernel of embedding/embedding_lookup for it\n"
        "  stored types that it has: f32; see targets/layouts/plain.yaml"
    )


def test_rows_that_do_not_divide_stay_as_they_are_in_f32_alone(graph: Graph) -> None:
    odd = replace(PACKED_N8, tile_n=7)
    assert parameters(
        select_kernels(graph, lambda _: "f32", odd, Components(ROOT))
    ) == parameters(graph)
    with pytest.raises(IngotError) as caught:
        lowered(graph, "i8_block32")
    assert str(caught.value) == (
        "toy-decoder: parameter 'token_embd.weight' cannot be stored as i8_block32; its"
        " shape [48, 16] does not divide into blocks of 32 columns\n"
        "  store it as f32: add a rule to weights.policy that matches it alone"
    )


def test_a_group_is_stored_column_by_column() -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    stored = np.frombuffer(grouped(rows, 2), np.float32)
    assert stored.tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert unpacked(stored.reshape(2, 3, 2)).tolist() == rows.tolist()


def test_rows_in_8_bits_are_within_half_a_step() -> None:
    rows = RNG.normal(size=(16, 64)).astype(np.float32)
    rows[5] = 0
    codes, scale = quantise_rows(rows)
    assert np.abs(codes).max() == 127
    error = np.abs(codes * scale[:, None].astype(np.float64) - rows)
    assert (error <= scale[:, None] * 0.5001).all()
    parts = quantised(rows, "i8", 8)
    weight = np.frombuffer(parts["weight"], np.int8).reshape(2, 64, 8)
    scales = np.frombuffer(parts["weight_scale"], np.float32).reshape(2, 8)
    exact = codes * scale[:, None].astype(np.float64)
    assert np.array_equal(unpacked_i8(weight, scales), exact)


def test_a_row_next_to_nothing_keeps_its_sign() -> None:
    # The scale is 1.49 of the least number, rounded down to 1 of it: 189 is no code.
    rows = np.full((1, 32), 189 * 2.0**-149, np.float32)
    assert (quantise_rows(rows)[0] == 127).all()
    assert (quantise_rows(-rows)[0] == -127).all()


def test_blocks_in_8_bits_are_within_half_a_step_of_the_stored_scale() -> None:
    rows = RNG.normal(size=(8, 96)).astype(np.float32)
    rows[2, 32:64] = 0
    found = quantise(rows, "i8_block32")
    codes, scale = found["weight"], found["weight_scale"]
    wide = np.repeat(scale.astype(np.float64), 32, axis=1)
    # A scale rounded down to f16 clips the largest code by less than a step's share.
    assert (np.abs(codes * wide - rows) <= wide * 0.57).all()
    parts = quantised(rows, "i8_block32", 8)
    weight = np.frombuffer(parts["weight"], np.int8).reshape(1, 3, 32, 8)
    scales = np.frombuffer(parts["weight_scale"], np.float16).reshape(1, 3, 8)
    assert np.array_equal(unpacked_i8_block32(weight, scales), codes * wide)


def test_codes_of_4_bits_are_8_rows_a_word() -> None:
    rows = RNG.normal(size=(16, 96)).astype(np.float32)
    found = quantise(rows, "i4_block32")
    # The value of a block that is farthest from zero is the lowest code.
    assert (found["weight"].reshape(-1, 32).min(axis=1) == 0).all()
    values = dequantise(found, "i4_block32")
    wide = np.repeat(np.abs(found["weight_scale"].astype(np.float64)), 32, axis=1)
    # Of the other sign, the highest code is one step nearer to zero.
    assert (np.abs(values - rows) <= wide * 1.01).all()
    assert (np.abs(values - rows) <= wide * 0.51).mean() > 0.97
    parts = quantised(rows, "i4_block32", 8)
    weight = np.frombuffer(parts["weight"], np.int32).reshape(2, 3, 32)
    scales = np.frombuffer(parts["weight_scale"], np.float16).reshape(2, 3, 8)
    assert np.array_equal(unpacked_i4_block32(weight, scales), values)
    with pytest.raises(ValueError, match="codes have 8 rows, the layout 16"):
        quantised(rows, "i4_block32", 16)


def test_a_layout_names_components_that_there_are(tmp_path: Path) -> None:
    path = tmp_path / "targets/layouts/odd.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        "layout: even\nsummary: wrong\ntile_n: 8\nkernels:\n"
        "  linear/linear: {f32: linear/gone}\n"
        "decode:\n  linear/linear: linear/away\n"
    )
    with pytest.raises(ExceptionGroup) as caught:
        read_layout(path, tmp_path)
    told = "\n".join(map(str, caught.value.exceptions))
    assert (
        "targets/layouts/odd.yaml:1:9: layout: expected the file's name 'odd'" in told
    )
    assert "no component named 'linear/gone'" in told
    assert "odd.yaml:7:18: decode.linear/linear: no component named" in told
