"""Load the targets and settings of a checkout, and the names of its manifests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ingot.engine.byte_sizes import parse_size
from ingot.engine.signed_statements import TrustedKey
from ingot.errors import ManifestError, Position
from ingot.model.component import Components
from ingot.model.library import check_names, find, names
from ingot.model.target import Target, read_target
from ingot.model.yaml_nodes import format_errors
from ingot.project.pyproject import read_project


@dataclass(frozen=True, slots=True)
class Workspace:
    """The targets and settings that all models of a checkout share."""

    root: Path
    components: Components
    models: tuple[str, ...]
    misnamed: dict[str, str]  # model whose file has another extension: the error
    targets: dict[str, Target]
    # Aliases of targets, such as `host`: the target that they select on this machine.
    aliases: dict[str, Target]
    broken: dict[str, str]  # target or alias that cannot be read: every error
    default_model: str
    default_target: str
    project: str  # its name, of pyproject.toml
    shared_cache: tuple[str, str]  # its address or "", its mode or ""
    keys: tuple[TrustedKey, ...] | None  # whose results count; None if all results do


def load(root: Path) -> Workspace:
    """Return the targets and settings of the checkout; list targets that are wrong.

    Raises: IngotError if pyproject.toml is wrong.
    """
    project = read_project(root)
    check_names(root, project.overrides)
    named: list[Target] = []
    broken: dict[str, str] = {}
    for name in names(root, "targets/*.yaml"):
        path = find(root, name)
        try:
            named.append(read_target(path, root))
        except ExceptionGroup as group:
            broken[path.stem] = format_errors(group)
    broken |= {
        path.stem: _other_ending(path, root) for path in _misnamed(root / "targets")
    }
    misnamed = _misnamed(root / "models")
    models = [*_manifests(root / "models"), *misnamed]
    # Report a wrong limit now, not only when the store is to shrink.
    parse_size(project.store_limit, "pyproject.toml: tool.ingot.store-limit")
    return Workspace(
        root=root,
        components=Components(root),
        models=tuple(sorted(path.stem for path in models)),
        misnamed={path.stem: _other_ending(path, root) for path in misnamed},
        targets={item.name: item for item in named if item.name == item.resolved},
        aliases={item.name: item for item in named if item.name != item.resolved},
        broken=broken,
        default_model=project.default_model,
        default_target=project.default_target,
        project=project.name,
        shared_cache=(project.shared_cache, project.shared_cache_mode),
        keys=project.keys,
    )


def _misnamed(folder: Path) -> list[Path]:
    """Return the YAML files of a folder that have the extension .yml."""
    return sorted(
        path
        for path in folder.glob("*.yml")
        if not path.name.startswith(".") and not path.with_suffix(".yaml").exists()
    )


def _other_ending(path: Path, root: Path) -> str:
    name = path.relative_to(root)
    message = f"expected the extension .yaml, found '{path.name}'"
    hint = f"mv {name} {name.with_suffix('.yaml')}"
    return str(ManifestError(Position(name.as_posix(), 1, 1), "", message, hint))


def _manifests(folder: Path) -> list[Path]:
    """Return the YAML files of a folder, without hidden files of editors."""
    return sorted(
        path for path in folder.glob("*.yaml") if not path.name.startswith(".")
    )
