"""Compile a manifest's module for a target, with random weights, in this process.

Neither doit nor the store is asked: for tests of what a module computes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ingot.engine.actions import Action
from ingot.model.component import Components, code_of
from ingot.model.graph import Graph
from ingot.model.manifest import Manifest
from ingot.model.runner import Runner
from ingot.model.select_kernels import select_kernels
from ingot.model.target import Target
from ingot.runtime.invoke import Module
from ingot.stages.specialize import plan_specialize
from ingot.weights.rope_table import rope_blocks
from tests import scratch
from tests.project import ROOT


@dataclass(frozen=True)
class Built:
    """A model, compiled for a target."""

    graph: Graph
    weights: dict[str, Any]
    runner: Runner
    module: Module


def lowered(manifest: Manifest, target: Target) -> Graph:
    """Return the graph as the target has it."""
    return select_kernels(
        manifest.graph, manifest.weights.stored, target.layout, Components(ROOT)
    )


def random_weights(graph: Graph) -> dict[str, Any]:
    """Return random numbers as the graph stores them; tables are what they are.

    Products of normal rows with matrices are near 1: [..., n_in] or, packed,
    [..., n_in, tile_n].
    """
    rng = np.random.default_rng(3)
    found = {}
    for item in graph.parameters:
        shape = tuple(map(int, item.type.shape))
        if item.table:
            found[item.name] = next(rope_blocks(shape, item.table, 2**31))
            continue
        n_in = shape[-2] if item.packing else shape[-1]
        scale = np.sqrt(n_in) if len(shape) > 1 else 1.0
        values = rng.standard_normal(shape) / scale
        found[item.name] = values.astype(np.float32)
    return found


def build(
    graph: Graph,
    target: Target,
    link: Action,
    weights: Mapping[str, Any],
    folder: Path,
    flags: tuple[str, ...] = (),
) -> Module:
    """Return what the link action's module is compiled to, with these weights."""
    from iree.runtime import ParameterIndex

    made = {}
    for item in graph.instances:
        path = ROOT / f"components/{item.component}.mlir"
        action = plan_specialize(item, code_of(path.read_text("utf-8")))
        made[f"{item.name}.mlir"] = scratch.run(action, folder / item.name)
    linked = scratch.run(link, folder / "link", made)
    index = ParameterIndex()
    for name, value in weights.items():
        index.add_buffer(name, np.ascontiguousarray(value).tobytes())
    index.create_archive_file(str(folder / "model.irpa"))
    vmfb = scratch.compiled(target, linked, folder / "vmfb", steps=flags)
    return Module(vmfb, folder / "model.irpa")
