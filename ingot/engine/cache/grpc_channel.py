"""A connection to an instance of a server of Bazel's remote-execution API.

Goes in: its address and who asks; comes out: calls, and why one failed, in words.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ingot.engine.cache.backend import BlobRejected, CacheFailure, Unreachable

if TYPE_CHECKING:
    import grpc

V2 = "/build.bazel.remote.execution.v2"
BYTES = "/google.bytestream.ByteStream"
OPERATIONS = "/google.longrunning.Operations"

# A server may refuse to be asked more often whether it is there.
# Source: grpc's GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS.
ALIVE_MS = 300_000


class NotFound(CacheFailure):
    """The server has no such entry."""


class Channel:
    """A connection, made with the first call; safe for several threads."""

    def __init__(self, address: str, authorization: str | None) -> None:
        """Keep the place; nothing is sent yet."""
        # Its notes on connections are nothing for who builds; it reads this once.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
        # Its poller may otherwise end a child before it is another program (grpc 1.85).
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
        import grpc

        parts = urlsplit(address)
        self.name = address
        self.instance = parts.path.strip("/")
        self.metadata = [("authorization", authorization)] if authorization else []
        # A connection of its own: servers limit the calls that one may have open.
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.keepalive_time_ms", ALIVE_MS),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 2000),
        ]
        if parts.scheme == "grpcs":
            self._channel = grpc.secure_channel(
                parts.netloc, grpc.ssl_channel_credentials(), options
            )
        else:
            self._channel = grpc.insecure_channel(parts.netloc, options)

    def ask(
        self,
        method: str,
        request: Any,
        decode: Callable[[bytes], Any],
        timeout_s: float,
    ) -> Any:
        """Return the answer to one question.

        Raises: CacheFailure where there is none.
        """
        call = self._channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=decode,
        )
        return guarded(lambda: call(request, metadata=self.metadata, timeout=timeout_s))

    def tell(self, method: str, request: Any, timeout_s: float) -> Any:
        """Return a call under way, whose answer does not matter."""
        call = self._channel.unary_unary(
            method, request_serializer=type(request).SerializeToString
        )
        return call.future(request, metadata=self.metadata, timeout=timeout_s)

    def stream(
        self,
        method: str,
        request: Any,
        decode: Callable[[bytes], Any],
        timeout_s: float | None = None,
    ) -> Any:
        """Return a call whose answers come one by one; reading may raise RpcError."""
        call = self._channel.unary_stream(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=decode,
        )
        return call(request, metadata=self.metadata, timeout=timeout_s)

    def send(
        self,
        method: str,
        requests: Iterator[Any],
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        timeout_s: float,
    ) -> Any:
        """Return the answer to all requests together.

        Raises: CacheFailure where there is none.
        """
        call = self._channel.stream_unary(
            method, request_serializer=encode, response_deserializer=decode
        )
        return guarded(
            lambda: call(requests, metadata=self.metadata, timeout=timeout_s)
        )


def guarded(ask: Callable[[], Any]) -> Any:
    """Return what `ask` returns.

    Raises: CacheFailure where it raises RpcError.
    """
    import grpc

    try:
        return ask()
    except grpc.RpcError as error:
        raise failure(error, grpc.StatusCode) from error


def failure(error: Any, codes: type[grpc.StatusCode]) -> CacheFailure:
    """Return why a call failed."""
    code = error.code()
    if code is codes.NOT_FOUND:
        return NotFound("it is not there")
    text = {
        codes.UNAUTHENTICATED: "it refuses who asks",
        codes.PERMISSION_DENIED: "it refuses access",
        codes.UNAVAILABLE: "no connection",
        codes.DEADLINE_EXCEEDED: "it does not answer",
        codes.RESOURCE_EXHAUSTED: "it is full",
    }.get(code, f"it answers {code.name}: {error.details()}"[:200])
    if code is codes.INVALID_ARGUMENT:
        return BlobRejected(text)
    if code is codes.UNAVAILABLE:
        return Unreachable(text)
    return CacheFailure(text)
