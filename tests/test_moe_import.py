"""Test that checkpoints of mixtures are imported, and baked bit for bit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.codec import from_json
from ingot.engine.actions import SourceFile
from ingot.imports.checkpoint import import_checkpoint
from ingot.model.component import Components
from ingot.model.layout import read_layout
from ingot.model.manifest import Manifest, read_manifest
from ingot.model.select_kernels import select_kernels
from ingot.model.yaml_nodes import format_errors
from ingot.programs.bake import main as bake_main
from ingot.programs.bake.spec import ARCHIVE, BakeSpec
from ingot.stages import bake
from tests.import_cases import checkout
from tests.moe_checkpoints import CONFIGS, arrays, checkpoint, sized
from tests.project import ROOT, edit
from tests.weights_cases import save, specification

Arrays = Mapping[str, Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


def bring(root: Path, source: Path) -> Manifest:
    """Import a checkpoint; return its manifest."""
    imported = import_checkpoint(root, str(source))
    return read_manifest(root / imported.path, root)


def baked(
    manifest: Manifest, layout: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> bytes:
    """The archive that the bake makes of a manifest's weights, in this process."""
    graph = manifest.graph
    kept = read_layout(ROOT / f"targets/layouts/{layout}.yaml", ROOT)
    lowered = select_kernels(graph, manifest.weights.stored, kept, Components(ROOT))
    action = bake.plan_bake(replace(manifest, graph=lowered))
    (folder / "weights").mkdir(parents=True)
    for name, source in action.inputs:
        if name.startswith("weights/"):
            assert isinstance(source, SourceFile)
            os.symlink(source.path, folder / name)
    monkeypatch.chdir(folder)
    bake_main.bake(from_json(BakeSpec, json.dumps(specification(action))))
    return Path(ARCHIVE).read_bytes()


@pytest.mark.parametrize("layout", ["plain", "packed_n8"])
@pytest.mark.parametrize("architecture", CONFIGS)
def test_a_checkpoint_makes_the_archive_of_the_same_weights_by_ggufs_names(
    root: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, layout: str
) -> None:
    source, values = checkpoint(root, architecture)
    save(
        root / "models/by-hand.safetensors", {k: ("F32", v) for k, v in values.items()}
    )
    theirs, ours = bring(root, source), read_manifest(sized(root, architecture), root)
    assert theirs.weights.naming == "hf"
    assert (theirs.dims, theirs.hyperparameters) == (ours.dims, ours.hyperparameters)
    assert theirs.graph.entry_points == ours.graph.entry_points
    made = baked(theirs, layout, root.parent / "theirs", monkeypatch)
    assert made == baked(ours, layout, root.parent / "ours", monkeypatch)


def test_the_report_says_which_tensors_a_parameter_is_made_of(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _ = checkpoint(root, "mixtral")
    baked(bring(root, source), "plain", root.parent / "theirs", monkeypatch)
    report = json.loads((root.parent / "theirs/bake.json").read_text())
    made = {item["name"]: item["source"]["tensor"] for item in report["parameters"]}
    assert made["blk.1.ffn_up_exps.weight"] == (
        "model.layers.1.block_sparse_moe.experts.{expert}.w3.weight"
    )


@pytest.mark.parametrize("element", ["F16", "F32"])
@pytest.mark.parametrize("layout", ["plain", "packed_n8"])
def test_the_dim_of_experts_may_be_the_last(
    root: Path, monkeypatch: pytest.MonkeyPatch, layout: str, element: str
) -> None:
    path = sized(root, "mixtral")
    edit(path, "source: f32, ", "")
    ours = read_manifest(path, root)
    values = arrays(ours)
    file = root / "models/by-hand.safetensors"
    save(file, {k: (element, v) for k, v in values.items()})
    expected = baked(ours, layout, root.parent / "first", monkeypatch)
    save(file, {k: (element, last(k, v)) for k, v in values.items()})
    edit(path, "naming: gguf", "naming: gguf\n  expert_axis: -1")
    turned = read_manifest(path, root)
    assert baked(turned, layout, root.parent / "last", monkeypatch) == expected


def last(name: str, values: Any) -> Any:
    """The array with the experts' dim last."""
    return np.moveaxis(values, 0, 2) if name.endswith("_exps.weight") else values


def test_experts_in_an_order_that_nothing_says_are_an_error(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sized(root, "mixtral")
    values = arrays(read_manifest(path, root))
    name = "blk.0.ffn_gate_exps.weight"
    place = f"by-hand.safetensors: tensor '{name}' for parameter '{name}': wrong shape;"
    file = root / "models/by-hand.safetensors"
    save(file, {k: ("F32", last(k, v) if k == name else v) for k, v in values.items()})
    with pytest.raises(ExceptionGroup) as caught:
        baked(read_manifest(path, root), "plain", root.parent / "a", monkeypatch)
    assert str(caught.value.exceptions[0]) == (
        f"{place} expected [4, 48, 32], found [48, 32, 4]\n"
        "  its last dim is the expert's: write 'expert_axis: -1' in weights"
    )
    edit(path, "naming: gguf", "naming: gguf\n  expert_axis: -1")
    with pytest.raises(ExceptionGroup) as caught:
        baked(read_manifest(path, root), "plain", root.parent / "b", monkeypatch)
    assert str(caught.value.exceptions[0]) == (
        f"{place.replace('gate_exps', 'down_exps')} expected [32, 48, 4],"
        " found [4, 32, 48]\n"
        "  its first dim is the expert's: remove 'expert_axis: -1' from weights"
    )


def test_only_ggufs_names_say_nothing_of_experts(root: Path) -> None:
    path = sized(root, "dbrx")
    edit(path, "naming: gguf", "naming: hf\n  expert_axis: -1")
    with pytest.raises(ExceptionGroup) as caught:
        read_manifest(path, root)
    assert format_errors(caught.value) == (
        "models/by-hand.yaml:20:16: weights.expert_axis: the architecture says how"
        " Hugging Face checkpoints hold experts\n"
        "  leave it out, or write 'naming: gguf'"
    )
