"""Mistakes that change no result, each with the reason."""

from __future__ import annotations

EQUIVALENT: dict[str, str] = {}
