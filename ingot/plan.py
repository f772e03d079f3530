"""Manifests and targets in, every action of the catalogue out, stage by stage.

The plan is a value: it starts nothing and reads nothing beyond what was read already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ingot.readers.sources import Url
from ingot.stages.bake import plan_bake
from ingot.stages.bench import plan_bench
from ingot.stages.bundle import plan_bundle
from ingot.stages.check import plan_check
from ingot.stages.compile import plan_compile, plan_compile_probe
from ingot.stages.fetch import plan_fetch
from ingot.stages.link import plan_link, plan_link_probe
from ingot.stages.specialize import plan_specialize
from ingot.values import Action, Output
from ingot.weights.inputs import is_fetched
from ingot.workspace import Selection, Workspace

STAGES = {
    "fetch": "files that manifests pin by sha256, downloaded",
    "specialize": "one static module of each component and its dims",
    "link": "entry points and specialised modules joined into one module",
    "compile": "the linked module compiled for a target",
    "bake": "the weights as an IREE parameter archive",
    "check": "the target's artifact against oracles and golden outputs",
    "bench": "every entry point timed on the target",
    "bundle": "what is shipped, with its provenance",
}
"""Stage: what it makes. The order is the order of the build."""


@dataclass(frozen=True)
class Plan:
    """Every action, each after those whose outputs it reads."""

    actions: tuple[Action, ...]

    @cached_property
    def by_task(self) -> dict[str, Action]:
        """Return the actions by task."""
        return {action.task: action for action in self.actions}

    def needed(self, tasks: Iterable[str]) -> set[str]:
        """Return the tasks and everything that they need."""
        pending, found = list(tasks), set[str]()
        while pending:
            task = pending.pop()
            if task not in found:
                found.add(task)
                pending.extend(
                    source.task
                    for _, source in self.by_task[task].inputs
                    if isinstance(source, Output)
                )
        return found

    def selected(self, stage: str, selection: Selection) -> tuple[str, ...]:
        """Return the tasks of a stage that the selection's bundles need."""
        bundles = [
            f"bundle:{model}@{target}"
            for model in selection.models
            for target in selection.targets
        ]
        needed = self.needed(bundles)
        return tuple(
            action.task
            for action in self.actions
            if action.task in needed and stage_of(action.task) == stage
        )


def stage_of(task: str) -> str:
    """Return the stage of a task; what is made to be checked counts with its kind."""
    return task.partition(":")[0].removesuffix("-probe")


def plan(workspace: Workspace) -> Plan:
    """Return the plan of every readable model for every target."""
    actions: dict[str, Action] = {}
    for model in workspace.models:
        for action in plan_model(workspace, model):
            # Models share specialised modules: one task, one action.
            actions.setdefault(action.task, action)
    return Plan(tuple(actions.values()))


def plan_model(workspace: Workspace, model: str) -> Iterator[Action]:
    """Yield the model's actions, stage by stage."""
    manifest = workspace.models[model]
    graph = manifest.graph
    for instance in graph.instances:
        yield plan_specialize(
            instance, workspace.root / f"components/{instance.component}.mlir"
        )
    for source in (manifest.weights.source, manifest.tokenizer):
        if isinstance(source, Url) and is_fetched(source):
            yield plan_fetch(source, workspace.root)
    yield plan_link(graph)
    yield plan_link_probe(graph)
    for layout in sorted({target.layout for target in workspace.targets.values()}):
        yield plan_bake(manifest, layout, workspace.root)
    for target in workspace.targets.values():
        yield plan_compile(graph, target)
        yield plan_compile_probe(graph, target)
        yield plan_check(manifest, target, workspace.root)
        yield plan_bench(manifest, target, workspace.root)
        yield plan_bundle(manifest, target, workspace.root)
