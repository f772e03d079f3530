"""Parse sizes such as "50GB", and format sizes for people."""

from __future__ import annotations

import re

from ingot.errors import IngotError

UNITS = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}


def parse_size(text: str, source: str) -> int | None:
    """Return the bytes of "50 GB" or "2GiB"; None for "none".

    Raises: IngotError that names the source of the text.
    """
    if text.strip().lower() == "none":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in UNITS:
        raise IngotError(
            f"{source}: expected a size, found '{text}'", "as 50GB, 2.5GiB, or none"
        )
    return int(float(match[1]) * UNITS[match[2]])


def format_size(size_bytes: float) -> str:
    """Return the size in a fitting unit, with about three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"
