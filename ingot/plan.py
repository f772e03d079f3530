"""A manifest and the targets in, every action of the model out, stage by stage.

The plan is a value: it starts nothing and reads nothing beyond what was read already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ingot.catalogue import Model, Settings
from ingot.emit.limits import Limits
from ingot.errors import IngotError
from ingot.graph import Graph
from ingot.readers.component import TensorFormal, read_component
from ingot.readers.lower import lower
from ingot.readers.manifest import Manifest, read_manifest
from ingot.readers.sources import Splat, Url
from ingot.readers.yaml import format_errors
from ingot.stages.bake import plan_bake
from ingot.stages.bench import plan_bench
from ingot.stages.bundle import plan_bundle
from ingot.stages.check import plan_check
from ingot.stages.compile import (
    plan_compile,
    plan_compile_debug,
    plan_compile_probe,
    plan_phases,
)
from ingot.stages.fetch import plan_fetch
from ingot.stages.link import plan_link, plan_link_debug, plan_link_probe
from ingot.stages.specialize import plan_specialize
from ingot.values import Action
from ingot.weights.inputs import is_fetched
from ingot.workspace import Workspace


def shared_settings(workspace: Workspace) -> Settings:
    """Return what all models of the checkout share."""
    unrunnable = {
        name: target.unrunnable_reason() for name, target in workspace.targets.items()
    }
    return Settings(
        models=workspace.models,
        targets={name: item.summary for name, item in workspace.targets.items()},
        unrunnable={name: text for name, text in unrunnable.items() if text},
        aliases={name: item.resolved for name, item in workspace.aliases.items()},
        broken=workspace.broken,
        default_model=workspace.default_model,
        default_target=workspace.default_target,
        project=workspace.project,
        shared_cache=workspace.shared_cache,
    )


def plan_named(workspace: Workspace, name: str) -> Model:
    """Return what the manifest of this name declares, or what is wrong with it."""
    if name in workspace.misnamed:
        return Model(broken=workspace.misnamed[name])
    try:
        manifest = read_manifest(workspace.root / f"models/{name}.yaml", workspace.root)
    except IngotError as error:
        return Model(broken=str(error))
    except ExceptionGroup as group:
        return Model(broken=format_errors(group))
    lowered, refused = _lowered(workspace, manifest)
    entries = ", ".join(entry.name for entry in manifest.graph.entry_points)
    return Model(
        summary=f"{manifest.architecture}: {entries}",
        unbuildable={
            target.name: refused[target.layout.name]
            for target in workspace.targets.values()
            if target.layout.name in refused
        },
        actions=tuple(plan_model(workspace, manifest, lowered)),
    )


def _lowered(
    workspace: Workspace, manifest: Manifest
) -> tuple[dict[str, Manifest], dict[str, str]]:
    """Return the manifest by layout, and by layout why it cannot be had."""
    lowered: dict[str, Manifest] = {}
    refused: dict[str, str] = {}
    layouts = {item.layout.name: item.layout for item in workspace.targets.values()}
    for name, layout in layouts.items():
        try:
            graph = lower(
                manifest.graph, manifest.weights.stored, layout, workspace.root
            )
        except IngotError as error:
            refused[name] = str(error)
        except ExceptionGroup as group:  # of a kernel's own defects
            refused[name] = format_errors(group)
        else:
            lowered[name] = replace(manifest, graph=graph)
    return lowered, refused


def limits_of(graph: Graph, root: Path) -> Limits:
    """Return where the values must be that the graph's components do not look at."""
    signatures = {
        item.component: read_component(item.component, root) for item in graph.instances
    }
    return {
        component: {
            formal.name: formal.limit
            for formal in signature.arguments
            if isinstance(formal, TensorFormal) and formal.limit
        }
        for component, signature in signatures.items()
    }


def plan_model(
    workspace: Workspace, manifest: Manifest, lowered: dict[str, Manifest]
) -> Iterator[Action]:
    """Yield the model's actions, stage by stage; `lowered` has it by layout."""
    # What it computes means nothing, and may not fit any memory.
    is_splat = isinstance(manifest.weights.source, Splat)
    for source in (manifest.weights.source, manifest.tokenizer):
        if isinstance(source, Url) and is_fetched(source):
            yield plan_fetch(source, workspace.root)
    for item in lowered.values():
        for instance in item.graph.instances:
            yield plan_specialize(
                instance, workspace.root / f"components/{instance.component}.mlir"
            )
        yield plan_link(item.graph)
        if not is_splat:
            yield plan_link_probe(item.graph)
            yield plan_link_debug(item.graph, limits_of(item.graph, workspace.root))
        yield plan_bake(item, workspace.root)
    # `ablate` reads the weights as they are, whatever is stored for targets.
    yield plan_bake(manifest, workspace.root)
    for target in workspace.targets.values():
        if target.layout.name not in lowered:
            continue
        manifest = lowered[target.layout.name]
        compiled = tuple(plan_compile(manifest.graph, target))
        yield from compiled
        if is_splat:
            continue
        yield from plan_compile_probe(manifest.graph, target)
        yield from plan_compile_debug(manifest.graph, target)
        yield from plan_phases(manifest.graph, target)
        yield plan_check(manifest, target, workspace.root)
        yield plan_bench(manifest, target, workspace.root)
        yield plan_bundle(manifest, target, compiled, workspace.root)
