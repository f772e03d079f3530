"""Read a checkout's manifests and plan their models, or collect their errors."""

from __future__ import annotations

from dataclasses import replace

from ingot.errors import IngotError
from ingot.model.manifest import Manifest, read_manifest
from ingot.model.select_kernels import select_kernels
from ingot.model.yaml_nodes import format_errors
from ingot.project.accepted_terms import accepted
from ingot.project.allowed_paths import allowed
from ingot.project.catalogue_values import Model, Settings
from ingot.project.workspace import Workspace
from ingot.stages.plan import plan_model


def shared_settings(workspace: Workspace) -> Settings:
    """Return the settings that all models of the checkout share."""
    unrunnable = {
        name: target.unrunnable_reason() for name, target in workspace.targets.items()
    }
    return Settings(
        models=workspace.models,
        targets={
            name: item.summary for name, item in sorted(workspace.targets.items())
        },
        unrunnable={name: text for name, text in unrunnable.items() if text},
        aliases={name: item.resolved for name, item in workspace.aliases.items()},
        broken=workspace.broken,
        default_model=workspace.default_model,
        default_target=workspace.default_target,
        project=workspace.project,
        shared_cache=workspace.shared_cache,
        keys=workspace.keys,
    )


def plan_named(workspace: Workspace, name: str) -> Model:
    """Return the actions of the manifest with this name, or its errors."""
    if name in workspace.misnamed:
        return Model(broken=workspace.misnamed[name])
    try:
        root, components = workspace.root, workspace.components
        path = root / f"models/{name}.yaml"
        manifest = read_manifest(path, root, components, accepted(), allowed(root))
    except IngotError as error:
        return Model(broken=str(error))
    except ExceptionGroup as group:
        return Model(broken=format_errors(group))
    lowered, unbuildable = _lowered(workspace, manifest)
    entries = ", ".join(entry.name for entry in manifest.graph.entry_points)
    return Model(
        summary=f"{manifest.architecture}: {entries}",
        weights=manifest.weights.source.note,
        terms=manifest.terms,
        unbuildable={
            target.name: unbuildable[target.layout.name]
            for target in workspace.targets.values()
            if target.layout.name in unbuildable
        },
        actions=tuple(
            plan_model(
                manifest, lowered, workspace.targets.values(), workspace.components
            )
        ),
    )


def _lowered(
    workspace: Workspace, manifest: Manifest
) -> tuple[dict[str, Manifest], dict[str, str]]:
    """Return the manifest by layout, and by layout why kernels are missing for it."""
    lowered: dict[str, Manifest] = {}
    unbuildable: dict[str, str] = {}
    layouts = {item.layout.name: item.layout for item in workspace.targets.values()}
    for name, layout in layouts.items():
        try:
            graph = select_kernels(
                manifest.graph, manifest.weights.stored, layout, workspace.components
            )
        except IngotError as error:
            unbuildable[name] = str(error)
        except ExceptionGroup as group:  # with the errors of a kernel's own file
            unbuildable[name] = format_errors(group)
        else:
            lowered[name] = replace(manifest, graph=graph)
    return lowered, unbuildable
