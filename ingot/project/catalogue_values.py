"""Define the frozen values that the catalogue of a checkout consists of."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingot.engine.actions import Action


@dataclass(frozen=True)
class Settings:
    """What all models of a checkout share."""

    models: tuple[str, ...]  # manifests' names
    targets: dict[str, str]  # name: what it is
    unrunnable: dict[str, str]  # target: why this processor cannot run it
    aliases: dict[str, str]  # "host": the target that it means here
    default_model: str
    default_target: str
    shared_cache: tuple[str, str]  # its address or "", its mode
    project: str = ""  # its name, of pyproject.toml
    # Target, or other name of one, that cannot be read: every defect of its file.
    broken: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """What one manifest declares; nothing but its defects, where it has some."""

    summary: str = ""
    broken: str = ""  # every defect of the manifest
    # Target: why it cannot have the model, such as a stored type.
    unbuildable: dict[str, str] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
