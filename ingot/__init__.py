"""Build model artifacts as a graph: from manifests to reproducible bundles."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingot.cli.api import BuildFailed, Built, build

__all__ = ["BuildFailed", "Built", "build"]

# What pip calls the package: on PyPI, `ingot` is something else.
DISTRIBUTION = "ingot-build"


def __getattr__(name: str) -> object:
    """Import the API when it is first used: the commands do without it."""
    if name in __all__:
        return getattr(importlib.import_module("ingot.cli.api"), name)
    raise AttributeError(f"module 'ingot' has no attribute '{name}'")
