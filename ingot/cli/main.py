"""Run the program `ingot`: doit with ingot's commands.

The `doit` of the doit package does the same, from the commands in pyproject.toml. This
program works in every folder of a project, starts faster, prints help on each command,
and reports errors that doit shows as tracebacks: Ctrl-C while doit is imported, an
empty argument, and a pyproject.toml that doit cannot read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ingot.cli import startup

REJECTED = 3

# Variables that are paths.
PATHS = ("source", "bundle")

# Options of doit that name a dodo.py.
LOADING = ("-f", "--file", "-d", "--dir")


def main() -> int:
    """Run doit with the arguments of the command line; return the exit code."""
    startup.prepare()
    return run(sys.argv[1:])


def run(arguments: list[str]) -> int:
    """Run doit with these arguments; return the exit code."""
    from ingot.cli import help as help_
    from ingot.errors import IngotError

    try:
        if arguments[:1] == ["--version"]:
            print(help_.version())
            return 0
        if arguments[:1] == ["--complete"]:
            from ingot.cli.completion import candidates

            print(*candidates(" ".join(arguments[1:]), Path.cwd()), sep="\n")
            return 0
        if help_.asked(arguments):
            print(help_.text(arguments))
            return 0
        # Importing doit takes a tenth of a second, so Ctrl-C is caught before.
        from ingot.cli.doit_commands import Doit
        from ingot.project.pyproject import FILE, read_project

        if "" in arguments:
            raise IngotError(
                "empty argument; expected a task, a command or NAME=VALUE",
                "is a shell variable not set? `doit list` shows all names",
            )
        arguments = enter_project(arguments)
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


def enter_project(arguments: list[str]) -> list[str]:
    """Change to the project's folder if this one is below it.

    Return the arguments, in which paths that the user gave lead to the same files.

    Raises: IngotError if there is no project.
    """
    from ingot.cli.installation import project_root
    from ingot.errors import IngotError
    from ingot.project.pyproject import FILE

    here = Path.cwd()
    # doit's own options name another dodo.py.
    named = any(word.startswith(LOADING) for word in arguments)
    if named or arguments[:1] == ["init"]:
        return arguments
    root = project_root(here)
    if root is None and not (here / FILE).exists():
        text = f"no project in {here} or a folder above: none has a dodo.py"
        raise IngotError(text, "`ingot init` writes a project into an empty folder")
    if root in (None, here):
        return arguments
    os.chdir(root)
    sys.argv[1:] = [_seen_from(here, word, arguments[0]) for word in arguments]
    return sys.argv[1:]


def _seen_from(folder: Path, word: str, command: str) -> str:
    """Return an argument whose path, if it is one, was relative to the folder."""
    name, equals, value = word.partition("=")
    # A source may also be an address, which is no path.
    if equals and name in PATHS and value and (folder / value).exists():
        return f"{name}={folder / value}"
    is_file = command == "migrate" and not word.startswith("-") and word != command
    return str(folder / word) if is_file else word


if __name__ == "__main__":
    sys.exit(main())
