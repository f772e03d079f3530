"""Parts of doit, of Python and of the process that a command replaces, and why."""

from __future__ import annotations

import os
import re
from typing import Any

from doit import cmdparse, plugin
from doit.cmdparse import CmdParseError

from ingot.cli import interrupt, streams
from ingot.project.options import VARIABLES

# Said of an option that there is not.
OPTIONS = "doit help run lists a build's, before the task: doit -n 2 build"

_OPTION = re.compile(r"option --(\w+) not recognized")
_NO_NUMBER = re.compile(
    r"Error parsing parameter '(\w+)' <class 'int'>\.\ninvalid literal .*: ('.*')"
)

_parse_options = cmdparse.CmdParse.parse_only


def replace() -> None:
    """Replace them; once more changes nothing."""
    streams.prepare()
    os.environ["PATH"] = _complete(os.environ.get("PATH", ""))
    # Reading the checkout takes a while on a busy machine.
    interrupt.tell()
    # ingot's plugins are in pyproject.toml; doit looks through all installed packages
    # for more, a twentieth of a build with nothing to do for each kind.
    plugin.entry_points_impl = lambda: lambda group: ()
    cmdparse.CmdParse.parse_only = _parse


def _complete(path: str) -> str:
    """Return where programs are looked for: the system's own are always found.

    A PATH that is empty, or without them, is a slip: nothing could be started.
    """
    folders = [folder for folder in path.split(":") if folder]
    return ":".join(dict.fromkeys((*folders, "/usr/bin", "/bin")))


def _parse(parser: Any, *words: Any) -> Any:
    """Return what doit reads of options, which it complains of with all that it has."""
    try:
        return _parse_options(parser, *words)
    except CmdParseError as error:
        text = str(error).partition(" (parsing options")[0].strip()
        text = _NO_NUMBER.sub(r"\1: expected a whole number, found \2", text)
        variable = _OPTION.search(text)
        hint = OPTIONS
        if variable and variable[1] in VARIABLES:
            hint = f"did you mean {variable[1]}=...?"
        raise CmdParseError(f"{text}\n  {hint}") from None
