"""Test good manifests and bad ones; each of `bad_manifests` is named for its error.

`manifests/<defect>.yaml` goes with the good architecture that it names;
`architectures/<defect>.yaml` and `decoders/<defect>.yaml` go with the good manifest of
their family. `expected/<defect>.txt` is what the user reads.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ingot.codec import from_json
from ingot.model.graph import Graph
from ingot.model.manifest import BenchCase, read_manifest
from ingot.model.tolerance import Tolerance
from ingot.model.weight_sources import WeightSource
from tests.manifest_cases import (
    GOOD,
    GOOD_DECODER,
    ROOT,
    defects,
    expected,
    good,
    message,
    place,
)
from tests.source_tree import tracked


@pytest.mark.parametrize("defect", defects("manifests"))
def test_a_bad_manifest_is_refused_with_this_message(
    defect: str, tmp_path: Path
) -> None:
    assert message(place(tmp_path, defect), tmp_path) == expected(defect)


@pytest.mark.parametrize("defect", defects("architectures"))
def test_a_bad_architecture_is_refused_with_this_message(
    defect: str, tmp_path: Path
) -> None:
    assert message(place(tmp_path, GOOD, defect), tmp_path) == expected(defect)


def test_heads_that_cannot_share_keys_are_refused(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "models", tmp_path / "models")
    for name in ("components", "oracles"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = tmp_path / "models/clm-60m.yaml"
    path.write_text(path.read_text().replace("n_head: 6", "n_head: 7"))
    # Its components take it: heads are counted when the model runs.
    assert message(path, tmp_path) == (
        "models/clm-60m.yaml:5:58: dims.n_head: expected a multiple of n_head_kv = 2,"
        " found 7\n"
    )


@pytest.mark.parametrize("defect", defects("decoders"))
def test_a_bad_decoder_is_refused_with_this_message(
    defect: str, tmp_path: Path
) -> None:
    path = place(tmp_path, GOOD_DECODER, defect)
    assert message(path, tmp_path) == expected(defect)


@pytest.mark.parametrize("name", tracked("models/*.yaml"))
def test_a_shipped_manifest_is_right(name: str) -> None:
    manifest = read_manifest(ROOT / name, ROOT)
    assert manifest.graph.model == Path(name).stem
    assert from_json(Graph, manifest.graph.json) == manifest.graph


def test_dims_are_bound_to_sizes_and_name_the_instance(tmp_path: Path) -> None:
    graph = good(tmp_path).graph
    assert [item.name for item in graph.instances] == [
        "heads__n_head_2__head_dim_3",
        "linear__n_in_6__n_out_8",
        "linear__n_in_8__n_out_6",
        "norm__n_embd_8",
    ]
    heads = graph.instances[0]
    assert heads.dims == (("batch", None), ("n_head", 2), ("head_dim", 3))
    assert heads.indices == (("n_head", 2),)
    assert [str(item.type) for item in heads.arguments] == [
        "f32[batch, 6]",
        "i32[batch]",
    ]
    assert [str(item.type) for item in heads.results] == ["f32[batch, 6]", "i32[batch]"]
    assert graph.instances[3].scalars == (("eps", "f32"),)


def test_an_instance_keeps_the_range_that_its_component_gives_to_indices() -> None:
    graph = read_manifest(ROOT / "models/smollm2-135m.yaml", ROOT).graph
    limits = {
        (item.component, argument.name): argument.limit.text
        for item in graph.instances
        for argument in item.arguments
        if argument.limit
    }
    assert limits["embedding/embedding_lookup", "ids"] == "[0, n_vocab)"
    assert limits["cache/kv_cache_update", "start"] == "[0, ctx - seq]"


def test_an_input_has_the_ranges_of_all_components_that_it_is_given_to() -> None:
    graph = read_manifest(ROOT / "models/smollm2-135m.yaml", ROOT).graph
    found = {
        (entry.name, port.name): [limit.text for limit in port.limits]
        for entry in graph.entry_points
        for port in entry.inputs
        if port.limits
    }
    assert found == {
        ("prefill", "tokens"): ["[0, 49152)"],
        ("prefill", "start"): ["[0, 2048 - seq]", "[0, ctx - seq]"],
        ("prefill", "last"): ["[0, seq)"],
        ("decode", "tokens"): ["[0, 49152)"],
        ("decode", "start"): ["[0, 2047]", "[0, ctx - 1]"],
    }


def test_repeats_are_written_out_and_each_layer_has_its_own_parameters(
    tmp_path: Path,
) -> None:
    graph = good(tmp_path).graph
    (entry,) = graph.entry_points
    assert [block.name for block in entry.blocks] == ["layer.0", "layer.1", "layer.2"]
    taken = [
        operand
        for block in entry.blocks
        for call in block.calls
        for operand in call.operands
        if operand.startswith("param:")
    ]
    assert taken == [
        f"param:blk.{layer}.{name}.weight"
        for layer in range(3)
        for name in ("attn_q", "attn_output")
    ]
    assert [f"param:{parameter.name}" for parameter in graph.parameters] == taken
    assert graph.parameters[2].source_name == "layers.1.q"
    assert str(graph.parameters[2].type) == "f32[6, 8]"


def test_a_call_gives_operands_and_numbers_in_the_components_order(
    tmp_path: Path,
) -> None:
    block = good(tmp_path).graph.entry_points[0].blocks[1]
    norm, attn_q, attn, _ = block.calls
    assert (norm.operands, norm.scalars) == (("hidden",), (1e-5,))
    assert attn_q.operands == ("norm", "param:blk.1.attn_q.weight")
    assert attn.results == ("mixed", "seen")
    assert block.inputs == (("hidden", "hidden"), ("mask", "mask"))
    assert block.outputs == (("hidden", "attn_output"), ("mask", "seen"))
    assert str(dict(block.types)["mixed"]) == "f32[batch, 6]"


def test_a_sequence_of_blocks_is_gone_through_layer_by_layer(tmp_path: Path) -> None:
    other = """  other:
    inputs: {hidden: "f32[batch, n_embd]", mask: "i32[batch]"}
    nodes:
      - {name: norm, uses: toy/norm, operands: {x: hidden}, attributes: {eps: 0.5}}
    outputs: {hidden: norm, mask: mask}

entry_points:"""
    graph = good(
        tmp_path,
        ("architectures", "entry_points:", other),
        ("architectures", "block: layer", "block: [layer, layer, other]"),
        ("manifests", "n_layer: 3", "n_layer: 5"),
    ).graph
    blocks = graph.entry_points[0].blocks
    assert [block.name for block in blocks] == [
        "layer.0",
        "layer.1",
        "other.2",
        "layer.3",
        "layer.4",
    ]
    assert blocks[2].calls[0].scalars == (0.5,)
    # The layer that takes none has none.
    assert [parameter.name for parameter in graph.parameters][::2] == [
        f"blk.{layer}.attn_q.weight" for layer in (0, 1, 3, 4)
    ]


def test_a_parameter_that_two_nodes_take_is_one_parameter(tmp_path: Path) -> None:
    shared = "blk.{layer}.attn_q.weight"
    graph = good(
        tmp_path,
        ("architectures", f"  {shared}: {{", "  attn_q.weight: {"),
        ("architectures", f'"{shared}"', "attn_q.weight"),
        ("architectures", "layers.{layer}.q", "layers.0.q"),
    ).graph
    assert [parameter.name for parameter in graph.parameters] == [
        "attn_q.weight",
        "blk.0.attn_output.weight",
        "blk.1.attn_output.weight",
        "blk.2.attn_output.weight",
    ]


def test_a_source_with_gguf_names_needs_no_others(tmp_path: Path) -> None:
    manifest = good(
        tmp_path,
        ("manifests", "naming: hf", "naming: gguf"),
        ("architectures", ', hf: "layers.{layer}.q"', ""),
    )
    names = [(item.name, item.source_name) for item in manifest.graph.parameters]
    assert names[0] == ("blk.0.attn_q.weight", "blk.0.attn_q.weight")
    assert manifest.weights.naming == "gguf"


def test_everything_else_of_a_manifest_is_kept(tmp_path: Path) -> None:
    check = """check:
  tolerances:
    golden: {max_abs_error: 1.0e-3, reason: made in half precision}
bench:"""
    manifest = good(tmp_path, ("manifests", "bench:", check))
    assert manifest.path == "models/small.yaml"
    assert (manifest.model, manifest.architecture) == ("small", "small")
    assert manifest.licence == "Apache-2.0"
    assert manifest.hyperparameters == (("norm_eps", 1e-5),)
    assert (manifest.tokenizer, manifest.golden) == (None, None)
    assert manifest.bench == (BenchCase(entry_point="encode", sizes=(("batch", 2),)),)
    source = "models/small.yaml:16"
    assert manifest.tolerances == {"golden": Tolerance(1e-3, None, source)}
    assert manifest.own_tolerances == ("golden",)
    assert manifest.weights.source == WeightSource("synthetic weights, seed 1", seed=1)
    assert manifest.weights.policy("blk.0.attn_q.weight").match == "*"


def test_the_first_policy_that_matches_holds(tmp_path: Path) -> None:
    rule = "{match: '*.attn_q.*', source: bf16, stored: f32, compute: f32}"
    manifest = good(tmp_path, ("manifests", "policy:\n", f"policy:\n    - {rule}\n"))
    assert manifest.weights.policy("blk.2.attn_q.weight").source == "bf16"
    assert manifest.weights.policy("blk.2.attn_output.weight").source == "f32"


def test_a_changed_component_is_read_again(tmp_path: Path) -> None:
    path = place(tmp_path, GOOD)
    read_manifest(path, tmp_path)
    component = tmp_path / "components/toy/norm.mlir"
    text = component.read_text("utf-8")
    component.write_text(text.replace("[batch, n_embd]", "[n_embd, batch]"), "utf-8")
    assert "expected f32[n_embd, batch]" not in text
    assert "stays dynamic" in message(path, tmp_path)


def test_the_models_of_the_guide_are_right(tmp_path: Path) -> None:
    guide = (ROOT / "docs/writing-a-manifest.md").read_text("utf-8")
    for part in ("components", "oracles", "models/licences"):
        shutil.copytree(ROOT / part, tmp_path / part)
    files = re.findall(r"```yaml\n# (models/\S+)\n(.*?)```", guide, re.DOTALL)
    assert [name for name, _ in files] == [
        "models/architectures/bag.yaml",
        "models/bag-tiny.yaml",
    ]
    for name, text in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    graph = read_manifest(tmp_path / "models/bag-tiny.yaml", tmp_path).graph
    assert [block.name for block in graph.entry_points[0].blocks] == ["pooling"]
