"""Define the specification of one download."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSpec:
    """A file to download."""

    url: str
    sha256: str  # of its content
    output: str  # the name of the file to write
