"""Words and pyproject.toml in, doit's exit code out.

Before doit knows any command of ingot's it reads both, and shows a mistake in them as a
traceback. What it breaks off at is told here; nothing is read twice where all is right.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from doit.doit_cmd import DoitMain

from ingot.cli import doit_patches
from ingot.cli.build_log import REFUSED
from ingot.errors import IngotError
from ingot.project.pyproject import FILE, read_project


def run(words: list[str]) -> int:
    """Run doit with these words; return the exit code."""
    doit_patches.replace()
    try:
        if "" in words:
            text = "an empty word; expected a task, a command or NAME=VALUE"
            hint = "a variable of the shell that is not set? doit list shows all names"
            raise IngotError(text, hint)
        doit = _doit()
    except IngotError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return REFUSED
    return int(doit.run(words) or 0)


def _doit() -> DoitMain:
    """Return doit with the commands that pyproject.toml declares.

    Raises: IngotError where it cannot be read.
    """
    if os.path.lexists(FILE) and not os.path.isfile(FILE):
        # doit would wait for what is written into a pipe.
        read_project(Path.cwd())
    try:
        return DoitMain()
    except Exception as error:
        read_project(Path.cwd())
        text = f"{FILE}: tool.doit: doit cannot read it: {error!r}"
        hint = f"git diff {FILE} shows what was changed"
        raise IngotError(text, hint) from None
