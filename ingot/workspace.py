"""A checkout in, its manifests, targets and settings out."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import IngotError
from ingot.readers.manifest import Manifest, read_manifest
from ingot.readers.target import Target, read_target


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
    shared_cache: tuple[str, str]  # its address or "", its mode


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
        shared_cache=(
            defaults.get("shared-cache", ""),
            defaults.get("shared-cache-mode", "read-write"),
        ),
    )
