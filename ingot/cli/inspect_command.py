"""Run `doit inspect`: show a model at one level of its compilation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ingot.cli.build_command import build_first
from ingot.cli.commands import Call
from ingot.cli.variables import one_of_each
from ingot.errors import IngotError, did_you_mean
from ingot.inspection.inspect import PHASES, Request, filtered_graph, run
from ingot.model.component import Components
from ingot.model.library import find
from ingot.model.manifest import read_manifest
from ingot.model.select_kernels import select_kernels
from ingot.model.target import read_target
from ingot.project.accepted_terms import accepted
from ingot.project.allowed_paths import allowed
from ingot.project.catalogue import Selection, read, requested_models
from ingot.project.selection import select


def inspect(call: Call) -> int:
    """Compile as far as the level, then print; errors come before that."""
    variables = dict(call.variables)
    selection = select(read(call.root, requested_models(variables)), variables)
    request = read_request(call.root, selection, variables)
    code = build_first(call, request.task) if request.task else 0
    return code or run(call.root, request)


def read_request(
    root: Path, selection: Selection, variables: Mapping[str, str]
) -> Request:
    """Return the request that the variables make.

    Raises: IngotError for an unknown level, several models or targets, or a filter that
        no name of the graph matches.
    """
    level = variables.get("level", "graph")
    if level not in PHASES:
        hint = did_you_mean(level, list(PHASES), "levels")
        raise IngotError(f"level={level}: no level named '{level}'", hint)
    model, target = one_of_each("inspect", selection.models, selection.targets)
    path = root / f"models/{model}.yaml"
    manifest = read_manifest(path, root, accepted=accepted(), readable=allowed(root))
    layout = read_target(find(root, f"targets/{target}.yaml"), root).layout
    stored, components = manifest.weights.stored, Components(root)
    graph = select_kernels(manifest.graph, stored, layout, components)
    request = Request(graph, target, level, variables.get("filter", ""))
    if level == "graph":
        filtered_graph(request)
    return request
