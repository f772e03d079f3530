"""Locks of files: the kernel lets go of one when its process dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def held(
    place: str, how: int, on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Hold the file's lock, `fcntl.LOCK_EX` alone or `fcntl.LOCK_SH` with others.

    Call `on_wait` first where somebody else holds it.
    """
    handle = _open(place)
    try:
        if on_wait is not None:
            try:
                fcntl.flock(handle, how | fcntl.LOCK_NB)
            except BlockingIOError:
                on_wait()
        fcntl.flock(handle, how)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def held_if_free(place: str) -> Iterator[bool]:
    """Hold the file's lock alone where nobody does; yield whether that is so."""
    handle = _open(place)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except BlockingIOError:
            is_free = False
        yield is_free
    finally:
        os.close(handle)


def _open(place: str) -> int:
    return os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
