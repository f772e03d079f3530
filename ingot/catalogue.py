"""A checkout in, its models, targets and planned actions out: read once per change.

Reading manifests and planning costs 0.2 s, most of it imports. What comes out is kept
in the build folder under the identity of every file that it was read from, so that a
build with nothing to do only compares identities.
"""

from __future__ import annotations

import os
import pickle
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ingot.edges.digests import Identity, identify
from ingot.errors import IngotError, did_you_mean
from ingot.values import Action, Output, SourceFile

STAGES = {
    "fetch": "files that manifests pin by sha256, downloaded",
    "specialize": "one static module of each component and its dims",
    "link": "entry points and specialised modules joined into one module",
    "compile": "the linked module compiled for a target",
    "phase": "what the compiler makes on the way; not needed for a bundle",
    "bake": "the weights as an IREE parameter archive",
    "check": "the target's artifact against oracles and golden outputs",
    "bench": "every entry point timed on the target",
    "bundle": "what is shipped, with its provenance",
}
"""Stage: what it makes. The order is the order of the build."""

SEAL_BYTES = 4

# Folders and files of a checkout that a catalogue is read from.
SOURCES = ("models", "targets", "components", "ingot", "pyproject.toml")


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
        """Return the selected tasks that nothing follows, model by model."""
        return [
            task
            for model in selection.models
            for target in selection.targets
            for task in self._ends(model, target)
        ]

    def compiled_only(self, selection: Selection) -> list[str]:
        """Return the selected models of which there is no bundle: splats."""
        return [
            model
            for model in selection.models
            if any(task.startswith(f"compile:{model}@") for task in self.by_task)
            and not any(task.startswith(f"bundle:{model}@") for task in self.by_task)
        ]

    def _ends(self, model: str, target: str) -> list[str]:
        """Return the bundle of a model, of which a splat has none."""
        bundle, compiled = (f"{s}:{model}@{target}" for s in ("bundle", "compile"))
        if bundle in self.by_task:
            return [bundle]
        if compiled not in self.by_task:
            return []
        return [compiled, *(t for t in self.by_task if t.startswith(f"bake:{model}@"))]

    def selected(self, stage: str, selection: Selection) -> tuple[str, ...]:
        """Return the tasks of a stage that are the selection's, or its bundles need."""
        pairs = {f"{m}@{t}" for m in selection.models for t in selection.targets}
        needed = self.needed(self.ends(selection))
        return tuple(
            action.task
            for action in self.actions
            if stage_of(action.task) == stage
            and (action.task in needed or action.task.partition(":")[2] in pairs)
        )


@dataclass(frozen=True)
class Catalogue:
    """What a checkout declares, as far as the command line needs it."""

    models: dict[str, str]  # name: what it is
    broken: dict[str, str]  # name: every defect of its manifest
    targets: dict[str, str]  # name: what it is
    unrunnable: dict[str, str]  # target: why this processor cannot run it
    # (model, target): why the target cannot have it, such as a stored type.
    unbuildable: dict[tuple[str, str], str]
    aliases: dict[str, str]  # "host": the target that it means here
    default_model: str
    default_target: str
    shared_cache: tuple[str, str]  # its address or "", its mode
    plan: Plan


@dataclass(frozen=True)
class Selection:
    """The models and targets of one command; `skipped` says why a target cannot run."""

    models: tuple[str, ...]
    targets: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def stage_of(task: str) -> str:
    """Return the stage of a task: the first word of its kind, `compile-probe`."""
    return task.partition(":")[0].partition("-")[0]


def read(root: Path) -> Catalogue:
    """Return the checkout's catalogue, from the build folder where it still stands.

    Raises: IngotError where a target or the settings are wrong.
    """
    place = root / "build/.ingot/catalogue.pickle"
    kept = _kept(place, root)
    if kept is not None:
        return kept
    from ingot.plan import catalogue

    found = catalogue(root)
    if found.broken:
        # What mends a manifest may lie anywhere: it is read again until it is right.
        return found
    content = pickle.dumps((_identities(root, _folders(found)), found))
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(_seal(content) + content)
        os.replace(temporary, place)
    except OSError as error:
        raise IngotError(
            f"{place}: cannot be written: {error.strerror}",
            "make room or permission in the build folder",
        ) from error
    return found


def select(catalogue: Catalogue, variables: dict[str, str]) -> Selection:
    """Return the models and targets that the variables name, or the defaults.

    `target=all` leaves out what this processor cannot run, and says so; a target that
    is named is never left out.

    Raises: IngotError for an unknown name, or with a named manifest's own defects.
    """
    known = [*catalogue.models, *catalogue.broken]
    models = _names("model", variables, known, catalogue.default_model)
    for name in models:
        if name in catalogue.broken:
            raise IngotError(catalogue.broken[name])
    known = [*catalogue.targets, *catalogue.aliases]
    targets = _names("target", variables, known, catalogue.default_target)
    skipped: dict[str, str] = {}
    if targets == known:
        targets = list(catalogue.targets)
        skipped = catalogue.unrunnable
    resolved = [
        catalogue.aliases.get(name, name) for name in targets if name not in skipped
    ]
    skipped = dict(skipped)
    for (model, target), reason in catalogue.unbuildable.items():
        if model in models and target in resolved:
            if len(models) == len(resolved) == 1:
                raise IngotError(reason)
            skipped[f"{model}@{target}"] = reason
    return Selection(
        tuple(models), tuple(dict.fromkeys(resolved)), tuple(skipped.items())
    )


def _names(
    kind: str, variables: dict[str, str], known: list[str], default: str
) -> list[str]:
    """Return the names that the variable stands for; all that are known for `all`."""
    words = [word.strip() for word in variables.get(kind, default).split(",")]
    if "all" in words:
        return known
    for word in words:
        if word not in known:
            raise IngotError(
                f"{kind}={word}: no {kind} named '{word}'",
                did_you_mean(word, known, f"{kind}s"),
            )
    return list(dict.fromkeys(words))


def _kept(place: Path, root: Path) -> Catalogue | None:
    """Return the kept catalogue; None where anything that it was read from differs."""
    try:
        sealed = place.read_bytes()
        content = sealed[SEAL_BYTES:]
        if sealed[:SEAL_BYTES] != _seal(content):
            return None
        identities, found = pickle.loads(content)
        if identities == _identities(root, _folders(found)):
            assert isinstance(found, Catalogue)
            return found
    except Exception:
        # A damaged file, or one of another version, is as good as none.
        return None
    return None


def _seal(content: bytes) -> bytes:
    """Return a checksum: a flipped bit must not pass for another flag."""
    return zlib.crc32(content).to_bytes(SEAL_BYTES, "big")


def _folders(catalogue: Catalogue) -> set[Path]:
    """Return the folders of all files that actions read: a file may come or go."""
    return {
        source.path.parent
        for action in catalogue.plan.actions
        for _, source in action.inputs
        if isinstance(source, SourceFile)
    }


def _identities(root: Path, folders: set[Path]) -> tuple[object, ...]:
    """Return what changes when a catalogue read again might be another one."""
    machine = (sys.prefix, sys.version, os.uname().nodename, os.uname().machine)
    return (
        machine,
        tuple(_walk(root)),
        tuple(sorted((str(path), identify(os.stat(path))) for path in folders)),
    )


def _walk(root: Path) -> Iterator[tuple[str, Identity]]:
    """Yield every file below the sources, in a fixed order, with its identity."""
    pending = [str(root / name) for name in reversed(SOURCES)]
    while pending:
        path = pending.pop()
        if os.path.isdir(path):
            names = sorted(n for n in os.listdir(path) if n != "__pycache__")
            pending.extend(os.path.join(path, name) for name in reversed(names))
        else:
            yield path, identify(os.stat(path))
