"""Give every HTTP response a deadline: its headers first, then the whole of it.

A timeout of a socket starts again with each byte, so a server that sends a byte now and
then, or "100 Continue" without end, would hold a build forever. The deadline is kept
where bytes are read, below everything that parses or unpacks them.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ingot.engine.cache.backend import Timeouts

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from urllib3 import HTTPConnectionPool


class TooSlow(TimeoutError):
    """The deadline has passed, and something had arrived."""


class Limits:
    """The deadlines of one request; tries of the same request share them."""

    def __init__(self, timeouts: Timeouts, size_bytes: int) -> None:
        """Expect a body of at most this size."""
        self.timeouts = timeouts
        self.has_bytes = False  # whether anything has arrived
        self._size_bytes = size_bytes
        self._headers_by = 0.0

    def headers_by(self) -> float:
        """Return when the headers must be there; asked for when the request is sent."""
        if not self._headers_by:
            self._headers_by = self.timeouts.deadline(0)
        return self._headers_by

    def body_by(self) -> float:
        """Return when the body must be there; asked for when the headers are."""
        return self.timeouts.deadline(self._size_bytes)


_limits: ContextVar[Limits] = ContextVar("limits")


@contextmanager
def limits(timeouts: Timeouts, size_bytes: int) -> Iterator[None]:
    """Give these deadlines to the requests that this thread sends in the block."""
    token = _limits.set(Limits(timeouts, size_bytes))
    try:
        yield
    finally:
        _limits.reset(token)


class TimedResponse(http.client.HTTPResponse):
    """A response that has to arrive in time."""

    def __init__(self, sock: socket.socket, *arguments: Any, **options: Any) -> None:
        """Read from the socket within the limits of this thread's request."""
        super().__init__(sock, *arguments, **options)
        self._limits = _limits.get()
        raw = self.fp.detach()
        self._reader = _TimedReader(sock, raw, self._limits)
        self.fp = io.BufferedReader(self._reader)

    def begin(self) -> None:
        """Read the headers; the deadline of the body starts when they are there."""
        super().begin()
        self._reader.deadline = self._limits.body_by()


class _TimedReader(io.RawIOBase):
    """Reads from a socket until a deadline."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, limits: Limits) -> None:
        self._sock = sock
        self._raw = raw
        self._limits = limits
        self.deadline = limits.headers_by()

    def readable(self) -> bool:
        """Return true: a BufferedReader asks."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int | None:
        """Read what has arrived.

        Raises: TimeoutError if nothing does until the deadline.
        """
        limits = self._limits
        try:
            left_s = self.deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._sock.settimeout(min(limits.timeouts.silent_s, left_s))
            count = self._raw.readinto(buffer)
        except TimeoutError:
            if limits.has_bytes and time.monotonic() >= self.deadline:
                raise TooSlow from None
            raise
        limits.has_bytes = True
        return count

    def close(self) -> None:
        """Close the socket's file too."""
        self._raw.close()
        super().close()


def timed(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
    """Return the kind of pool whose responses have deadlines."""
    connection = type(
        "TimedConnection", (pool.ConnectionCls,), {"response_class": TimedResponse}
    )
    return type("TimedPool", (pool,), {"ConnectionCls": connection})
