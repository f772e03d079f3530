"""doit's command `generate`: build what is missing, then write.

Standard output gets the text alone; what is built, and how fast it went, goes to
standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from types import FrameType
from typing import Any

from doit.exceptions import InvalidCommand

from ingot.cli.build_first import Building
from ingot.cli.commands import guarded, variables
from ingot.project.catalogue import asked, read
from ingot.project.selection import select


class Generate(Building):
    """What a decoder says after a prompt."""

    name = "generate"
    doc_purpose = "build a decoder's bundle, then write what it says after a prompt"
    doc_usage = 'model=NAME prompt="..."'
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Build, then write; refuse what is wrong before anything is built."""
        chosen: list[Any] = []

        def prepare() -> int:
            from ingot.cli.generation import choose, read_request

            if args:
                raise InvalidCommand(f"generate takes no task, found '{args[0]}'")
            request = read_request(variables())
            catalogue = read(Path.cwd(), asked(variables()))
            names = choose(catalogue, select(catalogue, variables()))
            chosen.extend(("@".join(names), request))
            return 0

        guarded(prepare)
        name, request = chosen
        code = self.build(params, f"bundle:{name}")
        return code or guarded(lambda: _write(name, request))


def _write(name: str, request: Any) -> int:
    """Run the bundle; return the exit code."""
    from ingot.cli.generation import INTERRUPTED, run
    from ingot.cli.user_store import store
    from ingot.engine import process

    digests = store().digests

    def digest(path: Path) -> tuple[str, int]:
        found = digests.of_file(path)
        return found.hash, found.size_bytes

    if isinstance(sys.stdout, TextIOWrapper):
        # A terminal that lacks a character is no reason to stop.
        sys.stdout.reconfigure(errors="replace")
    try:
        with first_interrupt_noted() as stopped:
            return run(Path.cwd(), name, request, digest, stopped)
    except KeyboardInterrupt:
        process.stop_all()
        print("\nstopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Who reads has read enough; Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except SystemExit as stop:
        return int(stop.code or 0)


@contextmanager
def first_interrupt_noted() -> Iterator[Callable[[], bool]]:
    """Give whether Ctrl-C was pressed; pressed once more, it raises as ever."""
    noted = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal noted
        if noted:
            raise KeyboardInterrupt
        noted = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: noted
    finally:
        signal.signal(signal.SIGINT, before)
