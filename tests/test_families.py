"""Test that checkpoints of every family are read right: transformers is the judge."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from gguf import MODEL_ARCH_NAMES, GGUFWriter, get_tensor_name_map
from safetensors.numpy import load_file

from ingot.checks.golden_files import read_logits
from ingot.checks.oracle_judge import judge_rows
from ingot.model.judge import judging_packages
from ingot.model.manifest import Manifest, read_manifest
from ingot.model.oracle import load_oracles
from ingot.model.yaml_nodes import format_errors
from ingot.weights.rope_table import RopeTable
from tests.family_checkpoints import CASES, DATA, write_case
from tests.gguf_cases import permute, write_gguf
from tests.import_cases import TINY, bring, checkout, write_as_gguf, write_metadata
from tests.judged_checkpoints import baked


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_computes_what_transformers_does(name: str, root: Path) -> None:
    case = CASES[name]
    source = write_case(root.parent / "tiny", name)
    _, manifest = bring(root, source, n_ctx=case.n_ctx)
    assert manifest.architecture == case.architecture
    parameters = baked(root, manifest, source)
    graph = manifest.graph
    golden = read_logits(DATA / f"{name}.npz")
    rows = judge_rows(graph, load_oracles(graph), parameters, golden)
    assert [row for row in rows if not row.passed] == []
    # Below and above windows of 8 and 16 positions before a scaling.
    assert {len(prompt) for prompt in golden.prompts} >= {1, 2, 7, 16, 33}
    assert len(rows) >= 5


def tables(manifest: Manifest) -> list[RopeTable]:
    """What the tables of angles of a model are computed from."""
    return [item.table for item in manifest.graph.parameters if item.table]


def test_a_gguf_file_of_scaled_angles_is_read_as_the_checkpoint(root: Path) -> None:
    source = write_case(root.parent / "tiny", "llama-llama3")
    _, expected = bring(root, source, n_ctx=64)
    (table,) = tables(expected)
    config = {**TINY["llama"], "head_dim": 16, "rope_theta": table.base}
    divisors = 1 / np.array(table.multipliers, np.float32)
    path = write_as_gguf(root.parent / "m.gguf", config, rope_freqs=divisors)
    imported, found = bring(root, path, n_ctx=64)
    assert "rope_freqs.weight" in (root / imported.path).read_text()
    (read,) = tables(found)
    np.testing.assert_allclose(read.multipliers, table.multipliers, rtol=2**-23)
    # transformers overlooks them in a GGUF file.
    assert judging_packages(found) == ()


def test_a_gguf_file_of_linear_scaling_is_read(root: Path) -> None:
    path = write_as_gguf(
        root.parent / "m.gguf",
        TINY["llama"],
        rope__scaling__type="linear",
        rope__scaling__factor=4.0,
    )
    _, manifest = bring(root, path)
    assert tables(manifest) == [RopeTable(100000.0, (0.25,) * 4)]


GGUF: dict[str, dict[str, float]] = {
    "gemma": {},
    "gemma2": {
        "attention__sliding_window": 8,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "granite": {
        "attention__scale": 0.1,
        "embedding_scale": 12.0,
        "residual_scale": 0.22,
        "logit_scale": 8.0,
    },
    "olmo2": {},
}
"""By case: the metadata of its GGUF file that Llama's does not have."""


def write_family_gguf(path: Path, name: str, source: Path) -> Path:
    """Write the case as llama.cpp's converter does, with the names of its library."""
    stated = json.loads((source / "config.json").read_text())
    names = get_tensor_name_map(
        next(key for key, value in MODEL_ARCH_NAMES.items() if value == name),
        stated["num_hidden_layers"],
    )
    tensors = {}
    for tensor, values in load_file(source / "model.safetensors").items():
        if name.startswith("gemma") and tensor.endswith("norm.weight"):
            values = values + np.float32(1)
        if name == "granite" and "q_proj" in tensor:
            values = permute(values, stated["num_attention_heads"])
        if name == "granite" and "k_proj" in tensor:
            values = permute(values, stated["num_key_value_heads"])
        known = names.get_name(tensor, try_suffixes=(".weight", ".bias"))
        assert known, tensor
        tensors[known] = ("F32", values)

    def add(writer: GGUFWriter) -> None:
        config = {**stated, "rope_theta": stated["rope_parameters"]["rope_theta"]}
        write_metadata(writer, config, "apache-2.0")
        for key, value in GGUF[name].items():
            full = f"{name}.{key.replace('__', '.')}"
            if isinstance(value, int):
                writer.add_uint32(full, value)
            else:
                writer.add_float32(full, value)

    return write_gguf(path, tensors, add, name)


@pytest.mark.parametrize("name", GGUF)
def test_a_gguf_file_of_a_family_bakes_the_same_numbers(name: str, root: Path) -> None:
    source = write_case(root.parent / "tiny", name)
    _, expected = bring(root, source, n_ctx=64)
    path = write_family_gguf(root.parent / f"{name}.gguf", name, source)
    _, found = bring(root, path, model="as-gguf", n_ctx=64)
    assert found.dims == expected.dims
    numbers = dict(expected.hyperparameters)
    if name == "gemma2":
        # llama.cpp takes the size of a head for the scale, as the 2B and 9B have it.
        numbers["attention_scale"] = 0.25
    assert dict(found.hyperparameters) == pytest.approx(numbers, rel=1e-6)
    whole = baked(root, expected, source)
    for folder in ("weights", "model.irpa"):
        (root / folder).rename(root / f"first-{folder}")
    again = baked(root, found, path)
    assert whole.keys() == again.keys()
    for parameter, values in whole.items():
        np.testing.assert_array_equal(again[parameter], values)


MISTAKES = {
    "layers: [layer.far]": "layers[0]: architecture 'mistral' has no layer"
    " 'layer.far'\n  did you mean 'layer.local'?",
    "layers: [layer.local, layer.local, layer.local, layer.local]": "layers: more than"
    " n_layer = 3, found 4",
    "rope_scaling: {rope.tabel: {kind: linear, factor: 2}}": "rope_scaling.rope.tabel:"
    " architecture 'mistral' has no such table\n  did you mean 'rope.table'?",
    "rope_scaling: {rope.table: {kind: linear, factor: -2}}": "rope_scaling.rope.table"
    ".factor: expected numbers above 0, found -2.0",
    "rope_scaling: {rope.table: {kind: divisors, divisors: [1, 2]}}": "rope_scaling"
    ".rope.table.divisors: expected a number for each of 8 pairs, found 2",
    "rope_scaling: {rope.table: {kind: llama3, factor: 2, low_freq_factor: 4,"
    " high_freq_factor: 1, n_ctx_trained: 16}}": "rope_scaling.rope.table"
    ".high_freq_factor: expected more than low_freq_factor = 4, found 1",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_wrong_layer_or_scaling_is_told_where_it_stands(
    line: str, root: Path
) -> None:
    imported, _ = bring(root, write_case(root.parent / "tiny", "ministral"))
    path = root / imported.path
    text = path.read_text()
    right = next(x for x in text.splitlines() if x.startswith("layers: "))
    path.write_text(text.replace(right, line))
    with pytest.raises(ExceptionGroup) as caught:
        read_manifest(path, root)
    number = text.splitlines().index(right) + 1
    place, _, message = format_errors(caught.value).partition(": ")
    assert place.startswith(f"models/tiny.yaml:{number}:")
    assert message == MISTAKES[line]
