"""Prepare the process: streams that were closed, a PATH without the system, Ctrl-C.

A reader that leaves, as in `doit list | head -1`, is not an error: the command ends
like one that does not handle it, with the exit code of SIGPIPE.
"""

from __future__ import annotations

import os
import select
import sys
from io import TextIOWrapper
from signal import SIGPIPE
from typing import Any

# What a shell reports of a program that SIGPIPE ended.
READER_LEFT = 128 + SIGPIPE

_OUT, _ERR = 1, 2


def prepare() -> None:
    """Prepare the process; a second call changes nothing."""
    sys.excepthook = _report
    _open_streams()
    os.environ["PATH"] = _with_system_folders(os.environ.get("PATH", ""))


def _report(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Print a line in place of a traceback if Ctrl-C ends a command before it runs."""
    if issubclass(kind, KeyboardInterrupt):
        print("\nstopped; nothing was run", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def _open_streams() -> None:
    """Open the streams that the process lacks; print '?' for what they cannot encode.

    If one is closed, as by `>&-`, the next file to be opened would take its number, and
    what is printed would be written into that file.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _ERR:
        os.set_inheritable(number, True)
    os.close(number)
    if sys.stdout is None:
        sys.stdout = os.fdopen(_OUT, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(_ERR, "w", encoding="utf-8", closefd=False)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _with_system_folders(path: str) -> str:
    """Return the PATH with the system's folders at its end.

    An empty PATH, or one without them, is a slip: nothing could be started.
    """
    folders = [folder for folder in path.split(":") if folder]
    return ":".join(dict.fromkeys((*folders, "/usr/bin", "/bin")))


def reader_left() -> bool:
    """Return whether the reader closed the output; silence Python's own complaint."""
    looked = select.poll()
    for number in (_OUT, _ERR):
        looked.register(number, 0)
    left = [number for number, events in looked.poll(0) if events & select.POLLERR]
    for number in left:
        # Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return bool(left)
