"""A checkout in, its targets, settings and the names of its manifests out."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import IngotError
from ingot.readers.target import Target, read_target
from ingot.readers.yaml import format_errors


@dataclass(frozen=True, slots=True)
class Workspace:
    """What all models of a checkout share, read once."""

    root: Path
    models: tuple[str, ...]
    targets: dict[str, Target]
    # Other names of targets, as `host`: what they mean on this machine.
    aliases: dict[str, Target]
    broken: dict[str, str]  # target or alias that cannot be read: every defect
    default_model: str
    default_target: str
    project: str  # its name, of pyproject.toml
    shared_cache: tuple[str, str]  # its address or "", its mode


def load(root: Path) -> Workspace:
    """Return what the checkout declares; a target that is wrong is only told.

    Raises: IngotError where pyproject.toml does not say the defaults.
    """
    named: list[Target] = []
    broken: dict[str, str] = {}
    for path in _manifests(root / "targets"):
        try:
            named.append(read_target(path, root))
        except ExceptionGroup as group:
            broken[path.stem] = format_errors(group)
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    defaults = settings.get("tool", {}).get("ingot", {})
    for name in ("default-model", "default-target"):
        if not isinstance(defaults.get(name), str):
            found = f"'{defaults[name]}'" if name in defaults else "nothing"
            noun = name.removeprefix("default-")
            message = f"pyproject.toml: tool.ingot.{name}: expected a {noun}'s name"
            raise IngotError(f"{message}, found {found}", f'{name} = "..."')
    return Workspace(
        root=root,
        models=tuple(path.stem for path in _manifests(root / "models")),
        targets={item.name: item for item in named if item.name == item.resolved},
        aliases={item.name: item for item in named if item.name != item.resolved},
        broken=broken,
        default_model=defaults["default-model"],
        default_target=defaults["default-target"],
        project=settings.get("project", {}).get("name", ""),
        shared_cache=(
            defaults.get("shared-cache", ""),
            defaults.get("shared-cache-mode", "read-write"),
        ),
    )


def _manifests(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, without what editors hide beside them."""
    return sorted(
        path for path in folder.glob("*.yaml") if not path.name.startswith(".")
    )
