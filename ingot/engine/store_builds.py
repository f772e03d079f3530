"""Builds in, one line each in the store out: what they ran and what they found there.

Appended in one write, so that builds at once do not mix their lines; a line that a full
disk cut off is skipped when they are read.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# More is cut to the newest half when the store is cleaned up.
MOST_LINES = 10_000


def append(path: Path, line: dict[str, Any]) -> None:
    """Add a line; a full or read-only disk loses it and nothing else."""
    content = json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, content)
        finally:
            os.close(handle)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines, oldest first; what is no line of ours is skipped."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for text in lines:
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if isinstance(line, dict):
                yield line


def trim(path: Path, most: int = MOST_LINES) -> None:
    """Cut the file to its newest half where it has more lines than `most`.

    A full or read-only disk leaves it as it is.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        lines = path.read_bytes().splitlines(keepends=True)
        if len(lines) > most:
            try:
                temporary.write_bytes(b"".join(lines[-most // 2 :]))
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
