"""Test that matrices in the blocks of a GGUF file are stored as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize, quantize

from ingot.errors import IngotError
from ingot.model.component import Components, TensorFormal
from ingot.model.graph import Graph
from ingot.model.layout import read_layout
from ingot.model.manifest import read_manifest
from ingot.model.oracle import token_limit
from ingot.model.select_kernels import part_name, select_kernels
from ingot.weights.convert import packed_from_seed, packed_from_tensors
from ingot.weights.element_types import BLOCKS
from ingot.weights.ggml_blocks import KEPT, read_blocks
from ingot.weights.parameter_spec import ParameterSpec, Part
from ingot.weights.quantise import SCHEMES, dequantise, quantise
from ingot.weights.safetensors import StoredTensor
from oracles import packed, packed_u32
from tests import toy_decoder
from tests.component_cases import NUMPY, signature_of, sized
from tests.gguf_cases import FORMATS, Twins, permute, random_blocks, write_gguf
from tests.import_cases import (
    TINY,
    bring,
    checkout,
    gguf_name,
    numbers,
    write_hf,
    write_metadata,
)
from tests.moe_checkpoints import checkpoint
from tests.project import ROOT, Project, edit

RNG = np.random.default_rng(5)
PACKED = {name: scheme for name, scheme in SCHEMES.items() if scheme.exact}
PREFIXES = {"packed_n8": "packed", "packed_u32": "packed_u32"}


def kernel(layout: str, stored: str) -> str:
    """Return the kernel of linear maps for a stored type."""
    found = read_layout(ROOT / f"targets/layouts/{layout}.yaml", ROOT)
    made = found.kernel("linear/linear", stored)
    assert made
    return made.decode


def spec(
    layout: str, stored: str, shape: tuple[int, int], **more: Any
) -> ParameterSpec:
    """Return a matrix as the bake is asked for it in a layout."""
    tiles, columns = -(-shape[0] // 8), shape[1]
    sizes = {
        **{"n_tile": tiles, "tile_n": 8, "n_in": columns},
        **{"n_block": columns // 32, "n_super": columns // 256},
    }
    parts = tuple(
        Part(
            name=part_name("w", formal.name),
            argument=formal.name,
            element=formal.type.element,
            shape=sized(formal.type, sizes),
        )
        for formal in signature_of(kernel(layout, stored)).arguments[1:]
        if isinstance(formal, TensorFormal)
    )
    return ParameterSpec(
        name="w",
        shape=shape,
        tensor="w",
        source=None,
        stored=stored,
        tile_n=8,
        parts=parts,
        **more,
    )


def unpacked(layout: str, wanted: ParameterSpec, contents: list[Any]) -> Any:
    """Return the plain matrix that the oracle of a kernel reads from the archive."""
    arrays = []
    for part, content in zip(wanted.parts, contents, strict=True):
        with content.path.open("rb") as file:
            file.seek(content.offset)
            data = file.read(content.size_bytes)
        arrays.append(np.frombuffer(data, NUMPY[part.element]).reshape(part.shape))
    name = kernel(layout, wanted.stored).rpartition("/")[2]
    oracle = getattr({"packed_n8": packed, "packed_u32": packed_u32}[layout], name)
    columns = np.eye(wanted.shape[1], dtype=np.float32)[None]
    return oracle(columns, *arrays)[0].T


def baked(
    layout: str, wanted: ParameterSpec, element: str, content: Any, folder: Path
) -> Any:
    """Return the plain matrix that is in the archive, of a file's tensor."""
    path = folder / "weights.gguf"
    path.write_bytes(content.tobytes())
    tensor = StoredTensor("w", element, wanted.shape, path.name, 0, content.nbytes)
    with (folder / "scratch").open("wb") as scratch:
        contents = packed_from_tensors(wanted, (tensor,), {path.name: path}, scratch)
    return unpacked(layout, wanted, contents)


def blocks_of(element: str, rows: int, columns: int) -> Any:
    """Return random rows of blocks."""
    values, block_bytes = BLOCKS[element]
    return random_blocks(element, rows, columns // values * block_bytes, block_bytes)


def meaning(element: str, content: Any) -> Any:
    """Return the values of blocks, as the `gguf` package computes them in float32."""
    return dequantize(content, GGMLQuantizationType[element])


@pytest.mark.parametrize("element", KEPT)
def test_codes_and_scales_have_the_values_of_the_gguf_package(element: str) -> None:
    content = blocks_of(element, 6, 512)
    for stored, scheme in SCHEMES.items():
        if scheme.ggml == element:
            found = dequantise(read_blocks(content, element), stored)
            np.testing.assert_array_equal(found, meaning(element, content))


@pytest.mark.parametrize("layout", PREFIXES)
@pytest.mark.parametrize("stored", PACKED)
def test_an_archive_has_the_values_of_the_file_bit_for_bit(
    stored: str, layout: str, tmp_path: Path
) -> None:
    element = PACKED[stored].ggml
    # A last tile of 5 rows, whose other rows are zeros.
    content = blocks_of(element, 21, 512)
    wanted = spec(layout, stored, (21, 512))
    found = baked(layout, wanted, element, content, tmp_path)
    np.testing.assert_array_equal(
        found[:21].astype(np.float32), meaning(element, content)
    )
    assert found.shape == (24, 512)
    assert (found[21:] == 0).all()


def test_rows_of_heads_are_put_in_order_with_their_blocks(tmp_path: Path) -> None:
    content = blocks_of("Q4_1", 32, 64)
    wanted = spec("packed_n8", "q4_1", (32, 64), interleaved_heads=2)
    found = baked("packed_n8", wanted, "Q4_1", content, tmp_path)
    np.testing.assert_array_equal(
        permute(found.astype(np.float32), 2), meaning("Q4_1", content)
    )


@pytest.mark.parametrize("element", ["Q4_0", "Q8_0"])
def test_blocks_that_have_the_form_of_a_stored_type_are_not_rounded(
    element: str, tmp_path: Path
) -> None:
    stored = {"Q4_0": "i4_block32", "Q8_0": "i8_block32"}[element]
    content = blocks_of(element, 8, 64)
    wanted = spec("packed_n8", stored, (8, 64))
    found = baked("packed_n8", wanted, element, content, tmp_path)
    np.testing.assert_array_equal(found.astype(np.float32), meaning(element, content))


@pytest.mark.parametrize("element", ["Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_rounded_values_are_as_near_as_those_of_the_gguf_package(element: str) -> None:
    rows = RNG.standard_normal((64, 512)).astype(np.float32)
    theirs = meaning(element, quantize(rows, GGMLQuantizationType[element]))
    ours = dequantise(quantise(rows, element.lower()), element.lower())
    assert np.square(ours - rows).mean() <= 1.001 * np.square(theirs - rows).mean()


@pytest.mark.parametrize(("stored", "limit"), [("q4_k", 0.080), ("q6_k", 0.0195)])
def test_rounded_values_of_nested_blocks_are_near(stored: str, limit: float) -> None:
    # Root mean square errors of unit normal numbers; that of q4_1 is 0.078.
    rows = RNG.standard_normal((64, 512)).astype(np.float32)
    found = dequantise(quantise(rows, stored), stored)
    assert np.sqrt(np.square(found - rows).mean()) < limit
    assert (dequantise(quantise(np.zeros_like(rows), stored), stored) == 0).all()


@pytest.mark.parametrize("stored", PACKED)
def test_synthetic_weights_are_rounded_to_blocks(stored: str, tmp_path: Path) -> None:
    wanted = spec("packed_n8", stored, (12, 256))
    with (tmp_path / "scratch").open("wb") as scratch:
        contents = packed_from_seed(wanted, 3, scratch)
    found = unpacked("packed_n8", wanted, contents)
    assert 0.8 < np.std(found[:12]) * np.sqrt(256) < 1.2
    assert (found[12:] == 0).all()


@pytest.mark.parametrize(
    ("element", "hint"), [("Q8_0", "q8_0"), ("F16", "f16"), ("Q5_K", "f32")]
)
def test_blocks_of_another_type_are_named(
    element: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twins = Twins(tmp_path)
    content = np.ones((12, 256)) if element == "F16" else blocks_of(element, 12, 256)
    twins.gguf["token_embd.weight"] = (element, content)
    twins.parameters[0].update(shape=[12, 256], stored="q4_1")
    assert twins.errors("model.gguf", monkeypatch) == [
        "model.gguf: tensor 'token_embd.weight' for parameter 'token_embd.weight':"
        f" wrong type; expected Q4_1, whose blocks 'q4_1' keeps, found {element}\n"
        f"  write 'stored: {hint}' in the rule of weights.policy"
    ]


# The policy.


def write_mixed(path: Path, config: dict[str, Any], types: dict[str, str]) -> Path:
    """Write a tiny Llama as a GGUF file; `types` has those that are not F32."""
    tensors: dict[str, tuple[str, Any]] = {}
    for name, values in numbers(config).items():
        full = gguf_name(name, gemma=False)
        element = types.get(full, types.get(full.rpartition(".")[0].rpartition(".")[2]))
        if element is None or values.ndim < 2:
            tensors[full] = ("F32", values)
        elif element in FORMATS:
            tensors[full] = (element, blocks_of(element, *values.shape))
        else:
            tensors[full] = (element, values)
    return write_gguf(
        path, tensors, lambda writer: write_metadata(writer, config, "apache-2.0")
    )


MIXED = {
    **{"token_embd": "Q8_0", "attn_q": "Q4_1", "attn_k": "Q4_1", "attn_v": "Q5_0"},
    **{"attn_output": "Q4_1", "ffn_gate": "Q4_1", "ffn_up": "Q4_1"},
    **{"blk.1.attn_v.weight": "Q8_0", "ffn_down": "F16"},
}


def test_import_keeps_the_type_of_each_tensor(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    source = write_mixed(tmp_path / "mixed.gguf", TINY["llama"], MIXED)
    imported, found = bring(root, source)
    assert [(rule.match, rule.stored) for rule in found.weights.policies] == [
        ("blk.1.attn_v.weight", "q8_0"),
        ("token_embd.weight", "q8_0"),
        ("blk.*.attn_v.weight", "q5_0"),
        ("blk.*.ffn_down.weight", "f16"),
        ("*", "q4_1"),
    ]
    assert imported.notes == (
        "token_embd.weight: 300 rows, stored as 304: kernels read 8 together",
    )
    assert "F16, F32, Q4_1, Q5_0, Q8_0 -> f16, q4_1, q5_0, q8_0" in str(imported)


def test_import_says_which_blocks_it_unpacks(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    types = {"token_embd": "Q5_1", "attn_q": "Q4_1"}
    source = write_mixed(tmp_path / "old.gguf", TINY["llama"], types)
    imported, found = bring(root, source)
    assert found.weights.stored("token_embd.weight") == "f32"
    assert found.weights.stored("blk.0.attn_q.weight") == "q4_1"
    assert imported.notes == (
        "Q5_1: unpacked to f32, because no component computes in these blocks",
    )


@pytest.mark.parametrize("stored", ["i8_block32", "i4_block32", "i8", "f16"])
def test_import_writes_the_type_that_is_asked_for(stored: str, tmp_path: Path) -> None:
    root = checkout(tmp_path)
    imported, found = bring(
        root, write_hf(tmp_path / "tiny", TINY["llama"]), stored=stored
    )
    rules = [(rule.match, rule.stored) for rule in found.weights.policies]
    in_blocks = "block32" in stored
    odd = [("blk.*.ffn_down.weight", "f32")] if in_blocks else []
    assert rules == [*odd, ("*", stored)]
    said = "blk.*.ffn_down.weight: f32, because their rows are no multiple of 32"
    assert (said in imported.notes) == in_blocks


@pytest.mark.parametrize(
    ("source", "stored", "message"),
    [
        (
            "hf",
            "i8_block16",
            "stored=i8_block16: not a type for this checkpoint; expected one of f32,"
            " bf16, f16, i8, i8_block32, i4_block32, i4_block32_hqq\n  did you mean"
            " 'i8_block32'?",
        ),
        (
            "gguf",
            "i8_block32",
            "stored=i8_block32: the checkpoint is quantised already, as q4_1, q5_0,"
            " q8_0; rounding it again would add a second error\n"
            "  leave stored= out to keep its types, or unpack it: stored=f32",
        ),
    ],
)
def test_import_rejects_a_type_that_does_not_fit(
    source: str, stored: str, message: str, tmp_path: Path
) -> None:
    root = checkout(tmp_path)
    if source == "hf":
        path = write_hf(tmp_path / "tiny", TINY["llama"])
    else:
        path = write_mixed(tmp_path / "mixed.gguf", TINY["llama"], MIXED)
    with pytest.raises(IngotError) as caught:
        bring(root, path, stored=stored)
    assert str(caught.value) == f"{message}\nfound 1 error; nothing was written"


def test_a_router_stays_f32_unless_it_is_named(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    source, _ = checkpoint(root, "mixtral")
    imported, found = bring(root, source, stored="i8")
    assert found.weights.stored("blk.0.ffn_gate_inp.weight") == "f32"
    assert found.weights.stored("blk.0.attn_q.weight") == "i8"
    assert (
        "*ffn_gate_inp*.weight: f32, because a router chooses by small differences"
        in imported.notes
    )
    path = root / imported.path
    own = '    - {match: "blk.*.ffn_gate_inp.weight", stored: bf16, compute: f32}\n'
    path.write_text(path.read_text().replace("  policy:\n", f"  policy:\n{own}"))
    named = read_manifest(path, root)
    assert named.weights.stored("blk.0.ffn_gate_inp.weight") == "bf16"


# Rows that do not fill the last tile.


@pytest.fixture(scope="module")
def odd_graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    folder = tmp_path_factory.mktemp("odd")
    return toy_decoder.read(folder, ("n_vocab: 48", "n_vocab: 51"))


@pytest.mark.parametrize("layout", PREFIXES)
@pytest.mark.parametrize("stored", ["bf16", "i8"])
def test_only_the_matrix_whose_rows_do_not_divide_is_padded(
    stored: str, layout: str, odd_graph: Graph
) -> None:
    found = select_kernels(
        odd_graph,
        lambda _: stored,
        read_layout(ROOT / f"targets/layouts/{layout}.yaml", ROOT),
        Components(ROOT),
    )
    packed_shapes = {
        item.name: (item.packing.shape, item.type.shape)
        for item in found.parameters
        if item.packing
    }
    (rows, _), (tiles, *_) = packed_shapes["token_embd.weight"]
    assert (rows, tiles) == (51, 7)
    assert "blk.0.attn_q.weight" in packed_shapes
    for entry, old in zip(found.entry_points, odd_graph.entry_points, strict=True):
        ports = [port.type for port in entry.outputs]
        assert ports == [port.type for port in old.outputs]
        assert token_limit(found, entry, "tokens") == 51
        calls = [call for block in entry.blocks for call in block.calls]
        (cut,) = (call for call in calls if call.name.endswith("_padded"))
        made = found.instance(cut.instance)
        assert made.arguments[0].type.shape[-1] == 56
        assert made.results[0].type.shape[-1] == 51


@toy_decoder.BUILDS[0]
@toy_decoder.BUILDS[1]
@pytest.mark.reads("tests/data/configs/*.json")
@pytest.mark.slow
@pytest.mark.nightly
def test_a_decoder_with_a_padded_vocabulary_is_right(tmp_path: Path) -> None:
    project = Project.create(tmp_path / "checkout")
    manifest = toy_decoder.place(project.root)
    edit(manifest, "n_vocab: 48", "n_vocab: 51")
    edit(manifest, "stored: f32", "stored: i8")
    run = project.doit("check", f"model={toy_decoder.MODEL}", "target=x86_64")
    assert run.code == 0, run.err
    path = project.root / f"build/{toy_decoder.MODEL}/x86_64/check.json"
    rows = json.loads(path.read_text())["rows"]
    assert {"model", "block"} <= {row["level"] for row in rows}
    assert all(row["passed"] for row in rows)
