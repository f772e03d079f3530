"""doit's commands as ingot has them: run, why, doctor, verify.

Exit codes: 0 done; 1 an action failed, or a check found something; 2 a defect of ingot
or doit itself; 3 the command line, a manifest or the store is wrong, nothing was run;
130 stopped by Ctrl-C; 143 stopped by SIGTERM.
"""

from __future__ import annotations

import atexit
import gc
import sys
import traceback
from errno import ENOSPC
from pathlib import Path
from typing import Any

from doit import cmd_run, doit_cmd
from doit.cmd_base import Command
from doit.cmdparse import CmdParseError
from doit.exceptions import InvalidCommand, InvalidDodoFile, InvalidTask

from ingot.cli import doit_patches, streams
from ingot.errors import IngotError
from ingot.project.catalogue import asked, read
from ingot.project.options import TASKS, refuse_repeated, refuse_unknown, refuse_words
from ingot.project.selection import refuse_compiled_only, select

BUNDLE_AGAIN = "doit build restores one of this checkout; fetch another one again"

OPT_QUIET = {
    "name": "quiet",
    "short": "q",
    "long": "quiet",
    "type": bool,
    "default": False,
    "help": "print failures only",
}


doit_patches.replace()
# What doit shows without a traceback; the exit code is 3.
REFUSALS = (CmdParseError, InvalidCommand, InvalidDodoFile, InvalidTask)


class Run(cmd_run.Run):  # type: ignore[misc]
    """doit's own `run`, with ingot's reporter, `--quiet` and a clean end."""

    name = "run"
    cmd_options = (*cmd_run.Run.cmd_options, OPT_QUIET)

    def execute(self, params: Any, args: list[str]) -> int:
        """Run tasks; or, with input=..., the built bundle."""
        if "input" in variables():
            return guarded(run_bundle, (*TASKS, "input"), "doit run input=...")
        guarded(lambda: 0, TASKS, "a build")
        return self.run_tasks(params, args)

    def run_tasks(self, params: Any, args: list[str]) -> int:
        """Run tasks and what they need; return the exit code."""
        from ingot.cli.build_log import logged
        from ingot.cli.reporter import QuietReporter, Reporter
        from ingot.cli.tasks import stop_on_signals

        if params["num_process"] < 0:
            number = params["num_process"]
            raise InvalidCommand(f"-n {number}: expected a whole number, 0 or more")
        if params["reporter"] == "console":
            params["reporter"] = QuietReporter if params["quiet"] else Reporter
        # What doit saw of it when it was loaded may have been closed.
        params["outfile"] = params["outfile"] or sys.stdout
        stop_on_signals()
        with logged(args) as end:
            end.code = self._build(params, args)
        return end.code

    def _build(self, params: Any, args: list[str]) -> int:
        """Run the tasks; return the exit code."""
        from ingot.cli import cache_options
        from ingot.cli.build_log import DEFECT, FAILED
        from ingot.cli.doit_runner import Tasks, ThreadRunner
        from ingot.cli.reporter import Reporter
        from ingot.cli.tasks import Front
        from ingot.cli.unknown_task import no_task

        _keep_garbage()
        # doit has no option for them.
        cmd_run.MThreadRunner, cmd_run.TaskControl = ThreadRunner, Tasks
        Front.named = tuple(args)
        try:
            code = int(super().execute(params, args))
            if code == DEFECT and Reporter.current and not Reporter.current.defective:
                # Going on after a failure, doit takes what needed it for defects.
                code = FAILED
            cache_options.finish()
            return code
        except InvalidCommand as error:
            if not error.not_found:
                raise
            text = str(no_task(error.not_found, self.loader.cmd_names))
            raise InvalidCommand(text) from None
        except KeyboardInterrupt:
            _leave()
            print("\nstopped; finished actions are kept", file=sys.stderr)
            return 130
        except SystemExit as stop:
            _leave()
            print("stopped; finished actions are kept", file=sys.stderr)
            return int(stop.code or 0)
        except REFUSALS:
            raise
        except Exception:
            return _break_off()


def _break_off() -> int:
    """End what runs, for the exception that is being handled; return the exit code."""
    _leave()
    code = defect()
    if code == streams.READER_LEFT:
        # Standard error may still be read.
        text = "stopped, as nobody reads its output; finished actions are kept"
        print(text, file=sys.stderr)
    return code


def _keep_garbage() -> None:
    """Look for no cycles: a build keeps nearly all that it makes.

    To look is a twentieth of a build with nothing to do, and to look once more when
    the process ends is a tenth.
    """
    gc.set_threshold(100_000)
    atexit.register(_freeze)


def _freeze() -> None:
    """Look for no cycles at the end, unless IREE is to find nothing left of it."""
    if "iree" not in sys.modules:
        gc.freeze()


def _leave() -> None:
    """End what runs, and what is being sent."""
    from ingot.cli import cache_options
    from ingot.engine import process

    process.stop_all()
    cache_options.abandon()


class TaskFree(Command):  # type: ignore[misc]
    """A command that is about no task."""

    # Variables that it reads, where it does not look at them itself.
    reads: tuple[str, ...] | None = ()

    def execute(self, params: Any, args: list[str]) -> int:
        """Refuse a task; do the work otherwise."""
        if args:
            message = f"{self.name} takes no task, found '{args[0]}'"
            usage = f"doit {self.name} {self.doc_usage}".rstrip()
            raise InvalidCommand(f"{message}\n  usage: {usage}")
        return guarded(self.work, self.reads, self.name)

    def work(self) -> int:
        """Do it; return the exit code."""
        raise NotImplementedError


class Why(Command):  # type: ignore[misc]
    """What changed, for each action that would run."""

    name = "why"
    doc_purpose = "say for each stale action which input, flag or tool changed"
    doc_usage = "[TASK ...]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Print the reasons; run nothing."""

        def explain() -> int:
            from ingot.cli.why import explain_all

            return explain_all(Path.cwd(), variables(), args)

        return guarded(explain, TASKS, "why")


class Doctor(TaskFree):
    """What this machine lacks."""

    name = "doctor"
    doc_purpose = "test tools, emulators, drivers, store and disk"
    doc_usage = ""
    doc_description = None

    def work(self) -> int:
        """Print the findings; exit with 1 where one is an error."""
        from ingot.cli.doctor import examine

        return examine(Path.cwd())


class Verify(Command):  # type: ignore[misc]
    """Whether a bundle is whole and right here."""

    name = "verify"
    doc_purpose = "re-hash a bundle, load it and re-run its golden input"
    doc_usage = "bundle=PATH"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Print what was verified; exit with 1 where the bundle is refused."""

        def check() -> int:
            from ingot.bundles.verify import verify

            path = variables().get("bundle")
            if not path:
                raise InvalidCommand("verify needs bundle=PATH, a folder or a tar")
            try:
                print(verify(Path(path)))
            except IngotError as error:
                refusal = IngotError(error.message, error.hint or BUNDLE_AGAIN)
                print(f"refused: {refusal}", file=sys.stderr)
                return 1
            return 0

        return guarded(check, ("bundle",), "verify")


def variables() -> dict[str, str]:
    """Return the `name=value` words of the command line."""
    return dict(doit_cmd._CMDLINE_VARS or {})


def guarded(body: Any, reads: tuple[str, ...] | None = None, name: str = "") -> int:
    """Return the body's exit code; show the user's errors without a traceback.

    `reads` are the variables of the command `name`; None where the body looks at them.
    """
    try:
        refuse_repeated(sys.argv[1:])
        refuse_unknown(variables())
        if reads is not None:
            refuse_words(variables(), reads, name)
        code = int(body())
        # Here it is told where it cannot be written.
        sys.stdout.flush()
        return code
    except IngotError as error:
        raise InvalidCommand(str(error)) from None
    except REFUSALS:
        raise
    except Exception:
        return defect()


def defect() -> int:
    """Show the exception that is being handled; return the exit code of a defect.

    Nobody else does: doit returns 3 for it, as for a wrong command line. Where output
    cannot be written, or nobody reads it, that is no defect.
    """
    from ingot.cli.build_log import DEFECT, FAILED

    error = sys.exception()
    if isinstance(error, BrokenPipeError) and streams.reader_left():
        return streams.READER_LEFT
    if isinstance(error, OSError) and error.filename is None and error.errno == ENOSPC:
        print(f"cannot write: {error.strerror}; make room there", file=sys.stderr)
        return FAILED
    traceback.print_exc()
    return DEFECT


def run_bundle() -> int:
    """Run the built bundles of the selected model on the input."""
    from ingot.cli.encode import run

    catalogue = read(Path.cwd(), asked(variables()))
    selection = select(catalogue, variables())
    refuse_compiled_only(catalogue, selection)
    for model in selection.models:
        for target in selection.targets:
            run(Path.cwd(), model, target, variables()["input"])
    return 0
