"""Print what the commands do, and the variables and options of each.

It imports nothing of doit, so that help appears at once.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

import ingot
from ingot.cli.commands import BY_NAME, COMMANDS, SENTENCES, TASKS, Command
from ingot.cli.variables import VARIABLES
from ingot.errors import IngotError, did_you_mean
from ingot.model.library import PACKAGE
from ingot.project.catalogue import STAGES

WORDS = ("--help", "-h")

_BUILD = "build, check, time and pack: every stage up to the bundle"
_OVERVIEW = """\
usage: ingot COMMAND [NAME=VALUE ...]

Builds model artifacts from manifests, checks them against oracles, and packs them as
reproducible bundles. `doit COMMAND` does the same.
"""
_END = "`ingot COMMAND --help` shows the variables and options of a command."


def asked(arguments: Sequence[str]) -> bool:
    """Return whether a command line asks for help."""
    return any(word in WORDS for word in arguments)


def version() -> str:
    """Return the name, version and place of this ingot."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        found = installed(ingot.DISTRIBUTION)
    except PackageNotFoundError:
        found = "of a checkout"
    return f"{ingot.DISTRIBUTION} {found} ({PACKAGE})"


def text(arguments: Sequence[str]) -> str:
    """Return the help that a command line asks for.

    Raises: IngotError if there is no such command.
    """
    words = [word for word in arguments if word[:1] != "-" and "=" not in word]
    if not words:
        return _overview()
    name = words[0].partition(":")[0]
    stages = {"build": _BUILD, **STAGES}
    if name in stages:
        command = BY_NAME["run"]
        usage = f"ingot [OPTION ...] {name} [NAME=VALUE ...]"
        return _page(usage, stages[name], TASKS, command)
    if name not in BY_NAME:
        known = [*stages, *(command.name for command in COMMANDS)]
        hint = did_you_mean(name, known, "commands")
        raise IngotError(f"no command named '{name}'", hint)
    command = BY_NAME[name]
    # A build, or with input= a built bundle.
    own = (*TASKS, *SENTENCES) if name == "run" else command.variables or ()
    usage = f"ingot {name} {command.usage}".rstrip()
    return _page(usage, command.purpose, own, command)


def _overview() -> str:
    stages = {"build": _BUILD, **STAGES}
    commands = {command.name: command.purpose for command in COMMANDS}
    parts = (
        _OVERVIEW,
        "stages:",
        *_rows(stages.items()),
        "",
        "commands:",
        *_rows(commands.items()),
        "",
        _END,
    )
    return "\n".join(parts)


def _page(usage: str, purpose: str, variables: Sequence[str], command: Command) -> str:
    lines = [f"usage: {usage}", "", *textwrap.wrap(f"{purpose}.", 88)]
    if variables:
        named = ((f"{name}=", VARIABLES[name]) for name in variables)
        lines += ["", "variables:", *_rows(named)]
    if command.options:
        named = (
            (f"-{item['short']}, --{item['long']}", item["help"])
            for item in command.options
        )
        lines += ["", "options:", *_rows(named)]
    return "\n".join(lines)


def _rows(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of a table of two columns."""
    for name, words in rows:
        first = f"  {name:<22} "
        yield from textwrap.wrap(
            words, 88, initial_indent=first, subsequent_indent=" " * len(first)
        )
