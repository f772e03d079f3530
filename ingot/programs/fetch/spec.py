"""Define the specification of one download."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSpec:
    """A file to download: at an address, or in a package."""

    kind: str  # "url", "python-package", "npm-package" or "huggingface-file"
    name: str  # the URL, or the name of the package or repository
    version: str  # of the package, or the repository's commit
    path: str  # of the file in the package or repository
    integrity: str  # of an npm package, as npm writes it: "sha512-..."
    sha256: str  # of the file
    output: str  # the name of the file to write
