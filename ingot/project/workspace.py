"""Load the targets and settings of a checkout, and the names of its manifests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ingot.engine.byte_sizes import parse_size
from ingot.errors import ManifestError, Position
from ingot.model.target import Target, read_target
from ingot.model.yaml_nodes import format_errors
from ingot.project.pyproject import read_project


@dataclass(frozen=True, slots=True)
class Workspace:
    """What all models of a checkout share, read once."""

    root: Path
    models: tuple[str, ...]
    misnamed: dict[str, str]  # model whose file has another ending: what to do
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

    Raises: IngotError where pyproject.toml is wrong.
    """
    named: list[Target] = []
    broken: dict[str, str] = {}
    for path in _manifests(root / "targets"):
        try:
            named.append(read_target(path, root))
        except ExceptionGroup as group:
            broken[path.stem] = format_errors(group)
    broken |= {
        path.stem: _other_ending(path, root) for path in _misnamed(root / "targets")
    }
    project = read_project(root)
    misnamed = _misnamed(root / "models")
    models = [*_manifests(root / "models"), *misnamed]
    # Told now, not when the store is to be made smaller.
    parse_size(project.store_limit, "pyproject.toml: tool.ingot.store-limit")
    return Workspace(
        root=root,
        models=tuple(sorted(path.stem for path in models)),
        misnamed={path.stem: _other_ending(path, root) for path in misnamed},
        targets={item.name: item for item in named if item.name == item.resolved},
        aliases={item.name: item for item in named if item.name != item.resolved},
        broken=broken,
        default_model=project.default_model,
        default_target=project.default_target,
        project=project.name,
        shared_cache=(project.shared_cache, project.shared_cache_mode),
    )


def _misnamed(folder: Path) -> list[Path]:
    """Return files that are meant for YAML files of a folder, by another ending."""
    return sorted(
        path
        for path in folder.glob("*.yml")
        if not path.name.startswith(".") and not path.with_suffix(".yaml").exists()
    )


def _other_ending(path: Path, root: Path) -> str:
    name = path.relative_to(root)
    message = f"expected the ending .yaml, found '{path.name}'"
    hint = f"mv {name} {name.with_suffix('.yaml')}"
    return str(ManifestError(Position(name.as_posix(), 1, 1), "", message, hint))


def _manifests(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, without what editors hide beside them."""
    return sorted(
        path for path in folder.glob("*.yaml") if not path.name.startswith(".")
    )
