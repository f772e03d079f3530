"""Give doit the commands of the table.

doit takes commands as classes: from pyproject.toml, which names attributes of this
module, or, in ingot's own program, from `Doit`. Each class parses its arguments with
doit's parser and calls the function of its line in the table.
"""

from __future__ import annotations

import getopt
import importlib
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

from doit import doit_cmd
from doit.cmd_base import Command
from doit.cmdparse import CmdOption, CmdParseError
from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask
from doit.plugin import PluginDict

from ingot.cli import commands, startup
from ingot.cli.commands import (
    FAILED,
    INTERNAL_ERROR,
    INTERRUPTED,
    UNSUPPORTED,
    Call,
)
from ingot.cli.installation import check_installation
from ingot.cli.variables import VARIABLES, check_known, check_set_once, check_used
from ingot.engine import process
from ingot.errors import IngotError

# Errors that doit prints without a traceback; the exit code is 3.
USER_ERRORS = (CmdParseError, InvalidCommand, InvalidDodoFile, InvalidTask)

_OPTION = re.compile(r"option --(\w+) not recognized")
_NO_NUMBER = re.compile(
    r"Error parsing parameter '(\w+)' <class 'int'>\.\ninvalid literal .*: ('.*')"
)


class Doit(doit_cmd.DoitMain):  # type: ignore[misc]
    """doit with ingot's commands; it looks for no others in installed packages."""

    def get_cmds(self) -> PluginDict:
        """Return doit's commands, most of them replaced."""
        found = PluginDict({command.get_name(): command for command in self.DOIT_CMDS})
        found.update({name: command_class(name) for name in commands.BY_NAME})
        return found


def __getattr__(name: str) -> type[Command]:
    """Return the class of a command: pyproject.toml names it as an attribute."""
    try:
        return command_class(name)
    except KeyError:
        raise AttributeError(name) from None


def command_class(name: str) -> type[Command]:
    """Return doit's kind of command for a line of the table.

    Raises: KeyError if the table has no such line.
    """
    line = commands.BY_NAME[name]
    fields = {"name": name, "doc_purpose": line.purpose, "doc_usage": line.usage}
    return type(name, (TableCommand,), {**fields, "line": line})


class TableCommand(Command):  # type: ignore[misc]
    """A command whose work is a function of the table."""

    line: commands.Command
    execute_tasks = True

    def __init__(self, **doit: Any) -> None:
        """Remember what doit gives every command: its loader, its commands."""
        startup.prepare()
        super().__init__(**doit)
        self._doit = doit

    def get_options(self) -> list[CmdOption]:
        """Return the command's options, and doit's for the path of dodo.py."""
        loader = self._doit.get("task_loader")
        placing = loader.cmd_options if loader else ()
        return [CmdOption(item) for item in (*self.line.options, *placing)]

    def parse_execute(self, in_args: list[str]) -> int:
        """Check the arguments, then call the function; return the exit code."""
        try:
            if self.name in UNSUPPORTED:
                raise commands.unsupported(self.name)
            check_installation(Path.cwd())
            doit = {**self._doit, "command": self}
            call = Call(variables=variables(), doit=doit, **self._parsed(in_args))
            if call.words and not self.line.takes_tasks:
                usage = f"doit {self.name} {self.line.usage}".rstrip()
                raise IngotError(
                    f"{self.name} takes no task, found '{call.words[0]}'",
                    f"usage: {usage}",
                )
            check_set_once(sys.argv[1:])
            check_known(call.variables)
            if self.line.variables is not None:
                check_used(call.variables, self.line.variables, self.name)
            if "hf:" in call.variables.get("model", "") and self.name != "import":
                call = self._with_imports(call)
            code = int(self.line.load()(call))
            # An output that cannot be written is reported here, not when Python ends.
            sys.stdout.flush()
            return code
        except IngotError as error:
            raise InvalidCommand(str(error)) from None
        except USER_ERRORS:
            raise
        except KeyboardInterrupt:
            process.stop_all()
            print("\nstopped", file=sys.stderr)
            return INTERRUPTED
        except SystemExit as stop:
            return int(stop.code or 0)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "cryptography":
                return report_unexpected(error)
            text = f"doit {self.name}: the package 'cryptography' is not installed"
            hint = "run: pip install 'ingot-build[signing]'"
            raise InvalidCommand(str(IngotError(text, hint))) from None
        except Exception as error:
            return report_unexpected(error)

    def _with_imports(self, call: Call) -> Call:
        """Return the call with models in place of repositories of the hub."""
        # Only a few calls need the modules of the import.
        hub_models = importlib.import_module("ingot.cli.hub_models")
        found = hub_models.imported_names(call.root, call.variables["model"])
        doit_cmd.set_var("model", found)
        return replace(call, variables={**call.variables, "model": found})

    def _parsed(self, words: list[str]) -> dict[str, Any]:
        """Return arguments and options; doit's error would show its whole parser."""
        try:
            parsed, left = self.cmdparser.parse(options_first(self.cmdparser, words))
        except CmdParseError as error:
            text = str(error).partition(" (parsing options")[0].strip()
            text = text.removeprefix("Error parsing Command: ")
            text = _NO_NUMBER.sub(r"\1: expected an integer, found \2", text)
            raise IngotError(text, option_hint(text)) from None
        parsed.update(self.opt_vals)
        return {"words": tuple(left), "options": parsed}


def options_first(parser: Any, words: list[str]) -> list[str]:
    """Return the words with options before tasks: doit reads none behind a task.

    Raises: IngotError for an option that the parser does not know.
    """
    try:
        found, others = getopt.gnu_getopt(words, parser.get_short(), parser.get_long())
    except getopt.GetoptError as error:
        raise IngotError(error.msg, option_hint(error.msg)) from None
    options = []
    for option, value in found:
        is_flag = parser.get_option(option)[0].type is bool
        options += [option] if is_flag else [option, value]
    return [*options, "--", *others]


def option_hint(text: str) -> str:
    """Return the hint for an option that is unknown, or in the wrong position."""
    option = _OPTION.search(text)
    if option and option[1] in VARIABLES:
        return f"did you mean {option[1]}=...?"
    return "`doit help run` lists a build's options"


def variables() -> Mapping[str, str]:
    """Return the `name=value` arguments of the command line, as doit has parsed them.

    doit's own function for it returns one at a time, of known name.
    """
    return dict(doit_cmd._CMDLINE_VARS or {})


def report_unexpected(error: Exception) -> int:
    """Print an exception that no user should see; return the exit code.

    A reader that left, or a full disk behind the output, is not an internal error.
    """
    if isinstance(error, BrokenPipeError) and startup.reader_left():
        return startup.READER_LEFT
    if isinstance(error, OSError) and error.filename is None and error.errno == ENOSPC:
        text = f"cannot write output: {error.strerror}; free some disk space"
        print(text, file=sys.stderr)
        return FAILED
    if isinstance(error, ImportError) and (error.name or "").startswith("ingot."):
        text = f"ingot was changed or upgraded while this command ran: {error}"
        print(f"{text}\n  run the same command again", file=sys.stderr)
        return FAILED
    traceback.print_exception(error)
    return INTERNAL_ERROR
