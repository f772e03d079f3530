"""Define the specification of one download."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSpec:
    """A file to download: at an address, or in a package."""

    kind: str  # "url", "python-package" or "npm-package"
    name: str  # the URL, or the package's name
    version: str  # of the package
    path: str  # of the file in the package
    integrity: str  # of an npm package, as npm writes it: "sha512-..."
    sha256: str  # of the file
    output: str  # the name of the file to write
