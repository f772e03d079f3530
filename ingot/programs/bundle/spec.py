"""Define the specification of one bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FOLDER = "bundle"

WRITTEN = ("LICENSE", "README.md", "bundle.json", "model.h")
"""The files that the program writes; the others are its inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSpec:
    """The files of a bundle, and the content of its `bundle.json`."""

    task: str  # its name in messages: "bundle clm-60m@x86_64"
    bundle: str  # its name: "clm-60m-x86_64"
    files: tuple[str, ...]  # in its folder
    # Paths in the checkout of the files whose digests it records.
    sources: tuple[str, ...]
    weights_origin: str
    # The part of `bundle.json` that is known before anything is built.
    contract: dict[str, Any]
