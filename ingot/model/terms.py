"""Describe the terms that a model's weights have.

Some licences, such as Gemma's, ask everyone who uses the weights to accept them. A
manifest that names such weights says what to build without: random weights.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a model's weights."""

    name: str  # "gemma"
    text: str  # the name of their file: "models/licences/LicenseRef-Gemma.txt"
    sha256: str  # of that file
    accepted: bool
