"""Run the program `doit`: doit with ingot's commands.

The `doit` of the doit package does the same, from the commands in pyproject.toml. This
program starts faster, and reports errors that doit shows as tracebacks: Ctrl-C while
doit is imported, an empty argument, and a pyproject.toml that doit cannot read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ingot.cli import startup

REJECTED = 3


def main() -> int:
    """Run doit with the arguments of the command line; return the exit code."""
    startup.prepare()
    return run(sys.argv[1:])


def run(arguments: list[str]) -> int:
    """Run doit with these arguments; return the exit code."""
    # Importing doit takes a tenth of a second, so Ctrl-C is caught before.
    from ingot.cli.doit_commands import Doit
    from ingot.errors import IngotError
    from ingot.project.pyproject import FILE, read_project

    try:
        if "" in arguments:
            raise IngotError(
                "empty argument; expected a task, a command or NAME=VALUE",
                "is a shell variable not set? `doit list` shows all names",
            )
        if os.path.lexists(FILE) and not os.path.isfile(FILE):
            # doit would wait until something writes into a pipe.
            read_project(Path.cwd())
        try:
            doit = Doit()
        except Exception as error:
            read_project(Path.cwd())
            text = f"{FILE}: tool.doit: doit cannot read it: {error!r}"
            hint = f"`git diff {FILE}` shows what was changed"
            raise IngotError(text, hint) from None
    except IngotError as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return REJECTED
    return int(doit.run(arguments) or 0)


if __name__ == "__main__":
    sys.exit(main())
