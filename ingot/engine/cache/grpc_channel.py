"""Connect to an instance of a server of Bazel's remote-execution API.

The cache and the executor share it. It makes the calls, and describes in words why one
failed.
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

# A server may reject more frequent keep-alive pings.
ALIVE_MS = 300_000


class NotFound(CacheFailure):
    """The server has no such entry."""


class Channel:
    """A connection, opened by the first call; safe for several threads."""

    def __init__(self, address: str, authorization: str | None) -> None:
        """Remember the address; send nothing yet."""
        # gRPC reads this once; its notes on connections mean nothing to users.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
        # Otherwise gRPC's poller may end a child between fork and exec (grpc 1.85).
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
        import grpc

        parts = urlsplit(address)
        self.name = address
        self.instance = parts.path.strip("/")
        self.metadata = [("authorization", authorization)] if authorization else []
        # A connection of its own: servers limit the open calls of one.
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
        """Return the response to one request.

        Raises: CacheFailure if there is none.
        """
        call = self._channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=decode,
        )
        return guarded(lambda: call(request, metadata=self.metadata, timeout=timeout_s))

    def start(self, method: str, request: Any, timeout_s: float) -> Any:
        """Start a call whose response does not matter; return it."""
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
        """Return a call that yields responses; reading them may raise RpcError."""
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
        """Return the response to a stream of requests.

        Raises: CacheFailure if there is none.
        """
        call = self._channel.stream_unary(
            method, request_serializer=encode, response_deserializer=decode
        )
        return guarded(
            lambda: call(requests, metadata=self.metadata, timeout=timeout_s)
        )


def guarded(ask: Callable[[], Any]) -> Any:
    """Return what `ask` returns.

    Raises: CacheFailure if it raises RpcError.
    """
    import grpc

    try:
        return ask()
    except grpc.RpcError as error:
        raise failure(error, grpc.StatusCode) from error


def failure(error: Any, codes: type[grpc.StatusCode]) -> CacheFailure:
    """Return the failure that a gRPC status stands for."""
    code = error.code()
    if code is codes.NOT_FOUND:
        return NotFound("not found")
    text = {
        codes.UNAUTHENTICATED: "authentication failed",
        codes.PERMISSION_DENIED: "access denied",
        codes.UNAVAILABLE: "no connection",
        codes.DEADLINE_EXCEEDED: "no response",
        codes.RESOURCE_EXHAUSTED: "it is full",
    }.get(code, f"{code.name}: {error.details()}"[:200])
    if code is codes.INVALID_ARGUMENT:
        return BlobRejected(text)
    if code is codes.UNAVAILABLE:
        return Unreachable(text)
    return CacheFailure(text)
