"""The streams that a command was started with in, streams that take its output out.

A reader that leaves, as in `doit list | head -1`, is no defect: the command ends as
programs do that know nothing of it, with the exit code of SIGPIPE.
"""

from __future__ import annotations

import os
import select
import sys
from io import TextIOWrapper
from signal import SIGPIPE

# What a shell says of a program that SIGPIPE ended.
READER_LEFT = 128 + SIGPIPE

_OUT, _ERR = 1, 2


def prepare() -> None:
    """Give the process the streams that it lacks; say '?' for what they cannot spell.

    Where one is closed, as by `>&-`, the next file to be opened would be it: what is
    printed would be written into that file.
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


def reader_left() -> bool:
    """Return whether nobody reads what is printed; then nothing complains of it."""
    looked = select.poll()
    for number in (_OUT, _ERR):
        looked.register(number, 0)
    left = [number for number, events in looked.poll(0) if events & select.POLLERR]
    for number in left:
        # Python would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return bool(left)
