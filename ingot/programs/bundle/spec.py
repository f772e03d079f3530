"""The specification of one bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FOLDER = "bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSpec:
    """What goes into a bundle, and what `bundle.json` says of it."""

    task: str  # as messages name it: "bundle clm-60m@x86_64"
    bundle: str  # its name: "clm-60m-x86_64"
    files: tuple[str, ...]  # in its folder
    sources: tuple[str, ...]  # whose digests it states, by their path in the checkout
    weights_origin: str
    # The part of `bundle.json` that is known before anything is built.
    contract: dict[str, Any]
