"""A command that builds in; its log, a line of history, a store within bounds out."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from doit import doit_cmd
from doit.exceptions import InvalidCommand

from ingot.engine.event_log import EventLog
from ingot.errors import IngotError

# An action; a defect, unless the build ends in another way; a wrong command line.
FAILED, DEFECT, REFUSED = 1, 2, 3


@dataclass
class End:
    """How the build ended."""

    code: int = DEFECT


# Of the command that builds; doit hands nothing on to what it loads.
_words: list[str] | None = None


def begin(root: Path) -> None:
    """Open the log of the build that is being prepared: its folder is known now."""
    if _words is not None:
        EventLog.current = EventLog(root, _words)


@contextmanager
def logged(args: list[str]) -> Iterator[End]:
    """Keep a log of the build that runs meanwhile; when it ends, what follows from it.

    What cannot be written of it is said, and does not change how the build ends.
    """
    global _words
    variables = doit_cmd._CMDLINE_VARS or {}
    _words = [*args, *(f"{name}={value}" for name, value in variables.items())]
    # The length is of another clock: the wall clock may jump meanwhile.
    start = time.monotonic()
    end = End()
    try:
        yield end
    except InvalidCommand:
        end.code = REFUSED
        raise
    finally:
        journal, EventLog.current, _words = EventLog.current, None, None
        if journal is not None:
            journal.finish(end.code)
            if journal.ends:
                _remember(journal, end.code, time.monotonic() - start)


def _remember(journal: EventLog, code: int, wall_s: float) -> None:
    from ingot.cli.user_store import BUILDS, keep_to_limit, store_root
    from ingot.engine import json_lines

    line = {"at": round(journal.started_s, 3), **journal.counts}
    json_lines.append(store_root() / BUILDS, line)
    if set(journal.ends.values()) == {"up to date"}:
        return
    from ingot.project import history

    history.add(journal, code, wall_s)
    try:
        keep_to_limit(journal.root)
    except IngotError as error:
        print(error, file=sys.stderr)
