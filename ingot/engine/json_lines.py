"""Append JSON lines to a file that several builds write, and read them back.

`builds.jsonl` in the store (what each build ran and restored) and `history.jsonl` in
the checkout are such files. Each line is one write, so that lines of concurrent builds
do not mix; a reader skips a line that a full disk cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A file with more lines is cut to its newest half.
MOST_LINES = 10_000


def append(path: Path, line: dict[str, Any]) -> None:
    """Append a line; a full or read-only disk loses that line and nothing else."""
    content = json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, content)
        finally:
            os.close(handle)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines, oldest first; skip what is not a JSON object."""
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
    """Cut the file to its newest half if it has more lines than `most`.

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
