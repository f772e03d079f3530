"""Commands of doit that do not fit in; what `info` can say, and what else to use, out.

They change or show doit's records, which ingot does not keep: they would say that a
task is forgotten or ignored, and the next build would not care.
"""

from __future__ import annotations

from typing import Any

from doit import cmd_help, cmd_info
from doit.cmd_base import Command
from doit.exceptions import InvalidCommand

from ingot.cli.commands import guarded


class Info(cmd_info.Info):  # type: ignore[misc]
    """doit's own `info`, of any model's task; `why` says whether it would run."""

    name = "info"
    doc_purpose = "show what a task is and which tasks come before it"
    cmd_options = ()

    def execute(self, params: Any, args: list[str]) -> int:
        """Print it."""
        from ingot.cli.tasks import Front

        Front.named = tuple(args)
        return guarded(lambda: cmd_info.Info.execute(self, params, args))

    def _execute(self, pos_args: list[str]) -> int:
        from ingot.cli.unknown_task import no_task

        names = {task.name for task in self.task_list}
        if len(pos_args) == 1 and pos_args[0] not in names:
            raise InvalidCommand(str(no_task(pos_args[0], self.loader.cmd_names)))
        return int(super()._execute(pos_args, hide_status=True))


class Help(cmd_help.Help):  # type: ignore[misc]
    """doit's own `help`; a reader that leaves is no defect."""

    name = "help"

    def execute(self, params: Any, args: list[str]) -> int:
        """Print it."""
        return guarded(lambda: cmd_help.Help.execute(self, params, args) or 0)


class Refused(Command):  # type: ignore[misc]
    """A command of doit that does nothing here."""

    doc_purpose = "nothing here: it says what to use instead"
    instead = ""

    def parse_execute(self, in_args: list[str]) -> int:
        """Refuse it, whatever its words and options are.

        Raises: InvalidCommand.
        """
        text = f"doit {self.name} does nothing here: ingot keeps records of its own"
        raise InvalidCommand(f"{text}\n  {self.instead}")


class Clean(Refused):
    """Results are the store's, and shared."""

    name = "clean"
    instead = "rm -r build removes what is shown, doit gc what was not used for longest"


class Forget(Refused):
    """A result stands for its inputs."""

    name = "forget"
    instead = "INGOT_CACHE=FOLDER doit ... runs everything again, with another store"


class Ignore(Refused):
    """A bundle has all its parts."""

    name = "ignore"
    instead = "doit STAGE, such as doit check, stops at that stage"


class ResetDep(Refused):
    """A result stands for its inputs."""

    name = "reset-dep"
    instead = "doit why says what would run, and which input changed"


class DumpDb(Refused):
    """The records are the store's."""

    name = "dumpdb"
    instead = "doit report shows the builds, doit why what changed since"


class Strace(Refused):
    """An action sees its inputs alone."""

    name = "strace"
    instead = "an action sees declared inputs alone; its failure names what it lacks"
