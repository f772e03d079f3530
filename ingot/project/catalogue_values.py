"""Define the frozen values that the catalogue of a checkout consists of."""

from __future__ import annotations

from dataclasses import dataclass, field

from ingot.engine.actions import Action
from ingot.engine.signed_statements import TrustedKey
from ingot.model.terms import Terms


@dataclass(frozen=True)
class Settings:
    """The settings that all models of a checkout share."""

    models: tuple[str, ...]  # names of the manifests
    targets: dict[str, str]  # name: summary
    unrunnable: dict[str, str]  # target: why this processor cannot run it
    aliases: dict[str, str]  # "host": the target that it means here
    default_model: str
    default_target: str
    shared_cache: tuple[str, str]  # its address or "", its mode or ""
    project: str = ""  # its name in pyproject.toml
    # Whose results of other machines count; None if those of all machines do.
    keys: tuple[TrustedKey, ...] | None = None
    # Target or alias that cannot be read: every error in its file.
    broken: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Model:
    """The actions of one manifest, or its errors if it has any."""

    summary: str = ""
    weights: str = ""  # "synthetic weights", or "" where they are a checkpoint's
    terms: Terms | None = None  # that the weights have, accepted or not
    broken: str = ""  # every error in the manifest
    # Target: why it cannot run the model, such as a stored type without a kernel.
    unbuildable: dict[str, str] = field(default_factory=dict)
    actions: tuple[Action, ...] = ()
