"""Define the specification of one file that is joined from parts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSpec:
    """The parts of a file, in their order."""

    parts: tuple[tuple[str, str], ...]  # path in the working folder, name in messages
    sha256: str  # of the file
    output: str  # its name
