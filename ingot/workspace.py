"""A checkout's manifests and targets in, the models and targets asked for out."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import IngotError, did_you_mean
from ingot.readers.manifest import Manifest, read_manifest
from ingot.readers.target import Target, read_target

# Words that a command line may set, and what they mean; anything else is refused.
VARIABLES = {
    "model": "model names, separated by commas, or 'all'",
    "target": "target names, separated by commas, or 'all'",
    "input": "a sentence for `doit run`",
    "bundle": "a bundle's folder or tar for `doit verify`",
}


@dataclass(frozen=True, slots=True)
class Workspace:
    """Everything that a checkout declares, read once."""

    root: Path
    models: dict[str, Manifest]
    targets: dict[str, Target]
    # Other names of targets, as `host`: what they mean on this machine.
    aliases: dict[str, Target]
    # Manifests that cannot be read: an error only for who asks for them.
    broken: dict[str, Exception]
    default_model: str
    default_target: str


@dataclass(frozen=True, slots=True)
class Selection:
    """The models and targets of one command; `skipped` says why a target cannot run."""

    models: tuple[str, ...]
    targets: tuple[str, ...]
    skipped: tuple[tuple[str, str], ...] = ()


def load(root: Path) -> Workspace:
    """Return what the checkout declares.

    Raises: IngotError or a group of ManifestErrors where a target is wrong.
    """
    named = [
        read_target(path, root) for path in sorted((root / "targets").glob("*.yaml"))
    ]
    models: dict[str, Manifest] = {}
    broken: dict[str, Exception] = {}
    for path in sorted((root / "models").glob("*.yaml")):
        try:
            models[path.stem] = read_manifest(path, root)
        except (IngotError, ExceptionGroup) as error:
            broken[path.stem] = error
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    defaults = settings["tool"]["ingot"]
    return Workspace(
        root=root,
        models=models,
        targets={item.name: item for item in named if item.name == item.resolved},
        aliases={item.name: item for item in named if item.name != item.resolved},
        broken=broken,
        default_model=defaults["default-model"],
        default_target=defaults["default-target"],
    )


def refuse_unknown(variables: dict[str, str]) -> None:
    """Refuse a variable that no command reads.

    Raises: IngotError with the nearest known one.
    """
    for name in variables:
        if name not in VARIABLES:
            raise IngotError(
                f"{name}={variables[name]}: no variable named '{name}'",
                did_you_mean(name, list(VARIABLES), "variables"),
            )


def select(workspace: Workspace, variables: dict[str, str]) -> Selection:
    """Return the models and targets that the variables name, or the defaults.

    `target=all` leaves out what this processor cannot run, and says so; a target that
    is named is never left out.

    Raises: IngotError for an unknown name; the manifest's own errors where it is wrong.
    """
    known = [*workspace.models, *workspace.broken]
    models = _names("model", variables, known, workspace.default_model)
    for name in models:
        if name in workspace.broken:
            raise workspace.broken[name]
    known = [*workspace.targets, *workspace.aliases]
    targets = _names("target", variables, known, workspace.default_target)
    skipped = []
    if targets == known:
        targets = list(workspace.targets)
        for name in targets:
            reason = workspace.targets[name].unrunnable_reason()
            if reason:
                skipped.append((name, reason))
    left_out = {name for name, _ in skipped}
    resolved = [
        workspace.aliases[name].resolved if name in workspace.aliases else name
        for name in targets
        if name not in left_out
    ]
    return Selection(tuple(models), tuple(dict.fromkeys(resolved)), tuple(skipped))


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
