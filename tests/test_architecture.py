"""Test architectures and blocks that extend others, and blocks that call blocks.

`bad_manifests/architectures` has the ones that are errors.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingot.model.architecture import FOLDER, read_architecture
from ingot.model.graph import Block, Graph
from ingot.model.manifest import read_manifest
from ingot.project.catalogue import read
from tests.manifest_cases import GOOD, GOOD_DECODER, ROOT, place
from tests.source_tree import tracked


def checkout(root: Path, name: str, base: str = GOOD) -> Path:
    """Return the good manifest of a family, with an example as its architecture."""
    path = place(root, base)
    for example in (Path(__file__).parent / "data/extending").glob("*.yaml"):
        shutil.copy(example, root / FOLDER)
    text = path.read_text("utf-8")
    path.write_text(text.replace(f"architecture: {base}", f"architecture: {name}"))
    return path


def graph_of(root: Path, name: str, base: str = GOOD) -> Graph:
    """Return the graph of the good manifest of a family, with an example."""
    return read_manifest(checkout(root, name, base), root).graph


def calls(block: Block) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """What each call of a block is named, takes and defines."""
    return [(item.name, item.operands, item.results) for item in block.calls]


def blocks(graph: Graph, entry_point: str) -> list[Block]:
    """The blocks of an entry point."""
    (found,) = [item for item in graph.entry_points if item.name == entry_point]
    return list(found.blocks)


def test_what_adds_nothing_has_the_graph_of_its_base(tmp_path: Path) -> None:
    path = checkout(tmp_path, GOOD)
    graph = read_manifest(path, tmp_path).graph
    text = path.read_text("utf-8").replace("architecture: small", "architecture: same")
    path.write_text(text)
    same = tmp_path / FOLDER / "same.yaml"
    same.write_text("architecture: same\nextends: small\n")
    assert read_manifest(path, tmp_path).graph == graph


def test_nodes_are_replaced_inserted_and_removed_by_name(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "nodes")
    layer = blocks(graph, "encode")[0]
    names = [call.name for call in layer.calls]
    assert names == ["first", "second", "attn_q", "attn", "output"]
    assert layer.outputs == (("hidden", "output"), ("mask", "seen"))
    # A new parameter that does not say where it belongs is the last.
    assert graph.parameters[-1].name == "output.weight"


def test_new_items_stand_where_they_say_or_behind_the_one_above(
    tmp_path: Path,
) -> None:
    checkout(tmp_path, GOOD)
    found = read_architecture(tmp_path / FOLDER / "order.yaml", tmp_path)
    assert found.files == (f"{FOLDER}/order.yaml", f"{FOLDER}/small.yaml")
    assert list(found.declared.parameters) == [
        "blk.{layer}.attn_q.weight",
        "b",
        "c",
        "blk.{layer}.attn_output.weight",
        "last",
    ]
    layer = found.declared.blocks["layer"]
    assert list(layer.inputs) == ["hidden", "second", "mask"]
    assert layer.at.position("nodes").path == f"{FOLDER}/small.yaml"


def test_an_entry_point_has_what_files_make_of_the_one_that_it_extends(
    tmp_path: Path,
) -> None:
    found = {}
    for name in ("prefill", "verify"):
        root = tmp_path / name
        graph = graph_of(root, name, GOOD_DECODER)
        found[name] = {
            entry.name: [block.name for block in entry.blocks]
            for entry in graph.entry_points
        }
    layers = ["layer.0", "layer.1", "layer.2"]
    assert found == {
        "prefill": {
            "prefill": ["embed", "more.0", *layers, "head"],
            "decode": ["embed", *layers, "head"],
            "verify": ["embed", "more.0", *layers, "head"],
        },
        "verify": {
            "prefill": ["embed", *layers, "head"],
            "decode": ["embed", *layers, "head"],
            "verify": ["embed", *layers, "own.0", "head"],
        },
    }
    assert graph.entry_points[1].inputs[0].type.shape == ("batch", 4)


def test_a_block_that_calls_blocks_has_their_calls(tmp_path: Path) -> None:
    graph = graph_of(tmp_path, "calls")
    layer = blocks(graph, "encode")[1]
    assert calls(layer)[:4] == [
        ("product", ("hidden", "param:blk.1.up.weight"), ("product",)),
        ("normed", ("product",), ("other",)),
        ("down_product", ("other", "param:blk.1.down.weight"), ("down_product",)),
        ("down_normed", ("down_product",), ("norm",)),
    ]
    assert [call.scalars for call in layer.calls[:4]] == [(), (1e-5,), (), (0.5,)]
    assert [name for name, _ in layer.types][:6] == [
        "hidden",
        "mask",
        "product",
        "other",
        "down_product",
        "norm",
    ]
    last = blocks(graph, "encode")[-1]
    assert (last.name, [call.scalars for call in last.calls]) == ("seen", [(), (0.25,)])
    names = {parameter.name for parameter in graph.parameters}
    assert {"blk.2.up.weight", "blk.2.down.weight", "seen.weight"} <= names


def test_an_inherited_tolerance_is_found_where_it_was_written(tmp_path: Path) -> None:
    path = checkout(tmp_path, "verify", GOOD_DECODER)
    found = read_manifest(path, tmp_path).tolerances["model"]
    assert found.source == f"{FOLDER}/{GOOD_DECODER}.yaml:7"


def test_a_bundle_has_all_files_of_its_architecture() -> None:
    model = read(ROOT, ["gemma3-270m"]).models["gemma3-270m"]
    (action,) = [a for a in model.actions if a.task == "bundle:gemma3-270m@aarch64"]
    names = [name for name, _ in action.inputs if f"sources/{FOLDER}" in name]
    assert names == [
        f"sources/{FOLDER}/{name}.yaml" for name in ("gemma3", "qwen3", "llama")
    ]


@pytest.mark.parametrize("name", tracked(f"{FOLDER}/*.yaml"))
def test_a_shipped_architecture_says_what_it_extends(name: str) -> None:
    # A reader of the file learns from its first lines what else to read.
    found = read_architecture(ROOT / name, ROOT)
    head = (ROOT / name).read_text("utf-8").partition("architecture:")[0]
    for base in found.files[1:2]:
        assert Path(base).stem in head.lower()
