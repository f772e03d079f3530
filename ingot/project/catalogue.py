"""Read the models, targets and planned actions of a checkout, once per change.

Reading a manifest and planning its model takes 0.2 s. The build folder caches each
model's plan with the identity of every file that it was read from. A build with nothing
to do only compares identities; other commands read only the models that they need.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from ingot import codec
from ingot.engine.actions import Action, Output, stage_of
from ingot.project import plan_cache
from ingot.project.catalogue_values import Model, Settings
from ingot.project.stored_plan import model_from_plain, to_stored

if TYPE_CHECKING:
    from ingot.project.workspace import Workspace

STAGES = {
    "fetch": "files that manifests pin by sha256: downloaded, joined, converted",
    "tokenizer": "the vocabulary of a GGUF file as a tokenizer.json",
    "specialize": "one static module of each component and its dims",
    "link": "entry points and specialised modules joined into one module",
    "compile": "the linked module compiled for a target",
    "ir": "the compiler's intermediate IR, for `doit inspect`; not for a bundle",
    "bake": "the weights as an IREE parameter archive",
    "check": "the target's artifact against oracles and golden outputs",
    "bench": "every entry point timed on the target",
    "bundle": "what is shipped, with its provenance",
}
"""What each stage produces, in the order of the build."""


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

    def ends(self, selection: Selection) -> list[str]:
        """Return the last tasks of the selected models and targets."""
        return [
            task
            for model in selection.models
            for target in selection.targets
            for task in self._ends(model, target)
        ]

    def compiled_only(self, selection: Selection) -> list[str]:
        """Return the selected models that have no bundle, because they are splats."""
        return [
            model
            for model in selection.models
            if any(task.startswith(f"compile:{model}@") for task in self.by_task)
            and not any(task.startswith(f"bundle:{model}@") for task in self.by_task)
        ]

    def _ends(self, model: str, target: str) -> list[str]:
        """Return the bundle of a model; of a splat, the module and the archives."""
        bundle, compiled = (f"{s}:{model}@{target}" for s in ("bundle", "compile"))
        if bundle in self.by_task:
            return [bundle]
        if compiled not in self.by_task:
            return []
        return [compiled, *(t for t in self.by_task if t.startswith(f"bake:{model}@"))]

    def selected(self, stage: str, selection: Selection) -> tuple[str, ...]:
        """Return the tasks of a stage that have its name, or that bundles need.

        What no bundle needs, such as the quality of weights that nobody rounded, runs
        if it is asked for by its own name.
        """
        named = {
            f"{stage}:{m}@{t}" for m in selection.models for t in selection.targets
        }
        needed = self.needed(self.ends(selection))
        return tuple(
            action.task
            for action in self.actions
            if stage_of(action.task) == stage
            and (action.task in needed or action.task in named)
        )


@dataclass(frozen=True)
class Catalogue:
    """The settings of a checkout, and the models that a command needs."""

    settings: Settings
    models: dict[str, Model]
    plan: Plan


@dataclass(frozen=True)
class Selection:
    """The models and targets of one command; `skipped` says why a target cannot run."""

    models: tuple[str, ...]
    targets: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def requested_models(variables: dict[str, str], tasks: Iterable[str] = ()) -> set[str]:
    """Return the models that a command needs: "all", or "" for the default one.

    A task without a model, such as `specialize:...` or a wildcard, may need any of
    them; `build` and the stages need the default one.
    """
    named = "model" in variables
    words = variables["model"].split(",") if named else ()
    models = {word.strip() for word in words}
    for task in tasks or ("build",):
        if task not in (*STAGES, "build"):
            name = task.partition(":")[2].partition("@")
            models.add(name[0] if name[1] and "*" not in task else "all")
        elif not named:
            models.add("")
    return models


def read(
    root: Path, models: Collection[str] = ("all",), with_actions: bool = True
) -> Catalogue:
    """Return the checkout's settings and the requested models.

    "" is the default model and "all" are all models; unknown names are left out. The
    catalogue also contains the errors in manifests and targets, so that a command only
    reports those that it needs. Without their actions, models are read much faster.
    """
    reader = _Reader(root)
    settings = reader.settings()
    wanted = {settings.default_model if name == "" else name for name in models}
    found = {
        name: reader.model(name, with_actions)
        for name in settings.models
        if name in wanted or "all" in wanted
    }
    actions: dict[str, Action] = {}
    for model in found.values():
        for action in model.actions:
            # Models share specialised modules: one task, one action.
            actions.setdefault(action.task, action)
    return Catalogue(settings, found, Plan(tuple(actions.values())))


class _Reader:
    """Reads a checkout, except for plans in the build folder that are up to date."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / "build/.ingot/plans"
        self._asked_ns = time.time_ns()
        self._sources = plan_cache.sources(root)
        self._workspace: Workspace | None = None

    def settings(self) -> Settings:
        """Return the settings that all models share."""
        place = self._folder / "settings.json"
        decode = partial(codec.from_plain, Settings)
        settings = plan_cache.load(place, decode, self._sources)
        if settings is None:
            from ingot.project.read_models import shared_settings

            settings = shared_settings(self._loaded())
            # The fix of a broken target may be in any file, as that of a manifest.
            if not settings.broken:
                plan_cache.save(place, settings, self._sources, self._asked_ns)
        return settings

    def model(self, name: str, with_actions: bool) -> Model:
        """Return the plan of the manifest with this name, or its errors."""
        place = self._place(name, with_actions)
        model = plan_cache.load(place, model_from_plain, self._sources)
        if model is None:
            from ingot.project.read_models import plan_named

            model = plan_named(self._loaded(), name)
            # The fix of a broken manifest may be in any file, so it is never cached.
            # While a target is broken, every plan lacks its actions.
            if not model.broken and not self._loaded().broken:
                self._save(name, model)
        return model

    def _save(self, name: str, model: Model) -> None:
        watched = plan_cache.watched_paths(self._root, model.actions)
        summary = replace(model, actions=())
        for part, with_actions in ((model, True), (summary, False)):
            place, stored = self._place(name, with_actions), to_stored(part)
            plan_cache.save(place, stored, self._sources, self._asked_ns, watched)

    def _place(self, name: str, with_actions: bool) -> Path:
        return self._folder / f"{name}.{'model' if with_actions else 'summary'}.json"

    def _loaded(self) -> Workspace:
        if self._workspace is None:
            from ingot.project.workspace import load

            self._workspace = load(self._root)
        return self._workspace
