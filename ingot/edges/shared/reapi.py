"""Bazel's remote-execution API as shared cache: ActionCache, CAS and ByteStream.

Blobs are packed with zstd on the way where the server offers it.

Source: build.bazel.remote.execution.v2, remote_execution.proto; google.bytestream.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from ingot.edges.shared import services_pb2 as api
from ingot.edges.shared.remote import (
    BlobRefused,
    CacheFailure,
    Kind,
    Patience,
    paced_file,
)
from ingot.values import Digest

if TYPE_CHECKING:
    import grpc
    from google.protobuf.message import Message

V2 = "/build.bazel.remote.execution.v2"
BYTES = "/google.bytestream.ByteStream"

ZSTD = 1  # Compressor.Value

# gRPC's own limit of a message is 4 MiB.
PIECE_BYTES = 1 << 20


class ReapiRemote:
    """An instance of a server."""

    def __init__(
        self, address: str, authorization: str | None, patience: Patience
    ) -> None:
        """Keep the place; nothing is sent yet."""
        # Its notes on connections are nothing for who builds; it reads this once.
        os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
        import grpc
        import zstandard  # noqa: F401 - missed here, not in the middle of a build

        parts = urlsplit(address)
        self.name = address
        self._instance = parts.path.strip("/")
        self._patience = patience
        self._metadata = [("authorization", authorization)] if authorization else []
        if parts.scheme == "grpcs":
            self._channel = grpc.secure_channel(
                parts.netloc, grpc.ssl_channel_credentials()
            )
        else:
            self._channel = grpc.insecure_channel(parts.netloc)
        self._packs: bool | None = None

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the content in pieces; None where the server has none."""
        if kind == "ac":
            return self._result(digest)
        pieces = self._read(digest)
        # The answer comes with the first piece; an empty blob has none.
        try:
            first = next(pieces, b"")
        except _NotThere:
            return None
        return _chain(first, pieces)

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Send the file."""
        if kind == "ac":
            request = api.UpdateActionResultRequest(
                instance_name=self._instance,
                action_digest=_message(digest),
                action_result=path.read_bytes(),
            )
            self._ask(f"{V2}.ActionCache/UpdateActionResult", request, _raw)
            return
        name = f"uploads/{uuid.uuid4()}/{self._resource(digest)}"
        call = self._channel.stream_unary(
            f"{BYTES}/Write",
            request_serializer=api.WriteRequest.SerializeToString,
            response_deserializer=api.WriteResponse.FromString,
        )
        requests = self._writes(self._named(name), path)
        self._guarded(lambda: call(requests, **self._options(digest.size_bytes)))

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs that the server does not have."""
        request = api.FindMissingBlobsRequest(
            instance_name=self._instance,
            blob_digests=[_message(digest) for digest in digests],
        )
        if not request.blob_digests:
            return set()
        answer = self._ask(
            f"{V2}.ContentAddressableStorage/FindMissingBlobs",
            request,
            api.FindMissingBlobsResponse.FromString,
        )
        return {
            Digest(item.hash, item.size_bytes) for item in answer.missing_blob_digests
        }

    def _result(self, key: Digest) -> Iterator[bytes] | None:
        request = api.GetActionResultRequest(
            instance_name=self._instance, action_digest=_message(key)
        )
        try:
            return iter([self._ask(f"{V2}.ActionCache/GetActionResult", request, _raw)])
        except _NotThere:
            return None

    def _read(self, digest: Digest) -> Iterator[bytes]:
        call = self._channel.unary_stream(
            f"{BYTES}/Read",
            request_serializer=api.ReadRequest.SerializeToString,
            response_deserializer=api.ReadResponse.FromString,
        )
        request = api.ReadRequest(resource_name=self._named(self._resource(digest)))
        stream = call(request, **self._options(digest.size_bytes))
        arriving = self._arriving(stream)
        try:
            yield from _unpacked(arriving) if self._packed() else arriving
        finally:
            stream.cancel()

    def _arriving(self, stream: Iterator[Any]) -> Iterator[bytes]:
        while (answer := self._guarded(lambda: next(stream, None))) is not None:
            yield answer.data

    def _writes(self, name: str, path: Path) -> Iterator[Message]:
        offset = 0
        for piece in self._outgoing(path):
            for start in range(0, len(piece), PIECE_BYTES):
                part = piece[start : start + PIECE_BYTES]
                yield api.WriteRequest(
                    resource_name=name, write_offset=offset, data=part
                )
                offset += len(part)
        yield api.WriteRequest(
            resource_name=name, write_offset=offset, finish_write=True
        )

    def _outgoing(self, path: Path) -> Iterator[bytes]:
        if not self._packed():
            yield from paced_file(path, self._patience)
            return
        import zstandard

        packer = zstandard.ZstdCompressor().compressobj()
        for piece in paced_file(path, self._patience):
            yield packer.compress(piece)
        yield packer.flush()

    def _packed(self) -> bool:
        """Return whether the server takes and sends zstd; asked once."""
        if self._packs is None:
            answer = self._ask(
                f"{V2}.Capabilities/GetCapabilities",
                api.GetCapabilitiesRequest(instance_name=self._instance),
                api.ServerCapabilities.FromString,
            )
            self._packs = ZSTD in answer.cache_capabilities.supported_compressors
        return self._packs

    def _resource(self, digest: Digest) -> str:
        kind = "compressed-blobs/zstd" if self._packed() else "blobs"
        return f"{kind}/{digest.hash}/{digest.size_bytes}"

    def _named(self, resource: str) -> str:
        return f"{self._instance}/{resource}" if self._instance else resource

    def _ask(self, method: str, request: Any, decode: Callable[[bytes], Any]) -> Any:
        call = self._channel.unary_unary(
            method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=decode,
        )
        return self._guarded(lambda: call(request, **self._options(0)))

    def _options(self, size_bytes: int) -> dict[str, Any]:
        patience = self._patience
        seconds = patience.silent_s + size_bytes / patience.bytes_per_s
        return {"metadata": self._metadata, "timeout": seconds}

    def _guarded(self, ask: Callable[[], Any]) -> Any:
        import grpc

        try:
            return ask()
        except grpc.RpcError as error:
            raise _failure(error, grpc.StatusCode) from error


class _NotThere(CacheFailure):
    """The server has no such entry."""


def _failure(error: Any, codes: type[grpc.StatusCode]) -> CacheFailure:
    code = error.code()
    if code is codes.NOT_FOUND:
        return _NotThere("it is not there")
    text = {
        codes.UNAUTHENTICATED: "it refuses who asks",
        codes.PERMISSION_DENIED: "it refuses access",
        codes.UNAVAILABLE: "no connection",
        codes.DEADLINE_EXCEEDED: "it does not answer",
        codes.RESOURCE_EXHAUSTED: "it is full",
    }.get(code, f"it answers {code.name}: {error.details()}"[:200])
    if code is codes.INVALID_ARGUMENT:
        return BlobRefused(text)
    return CacheFailure(text)


class _Joined(io.RawIOBase):
    """Pieces as a file to read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return at most that many bytes; none at the end."""
        while not self._rest and (piece := next(self._pieces, None)) is not None:
            self._rest = piece
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield what the pieces unpack to, no more at a time than fits in memory."""
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(
        cast(IO[bytes], _Joined(pieces))
    )
    try:
        while piece := reader.read(PIECE_BYTES):
            yield piece
    except zstandard.ZstdError as error:
        raise BlobRefused(f"it sends no zstd: {error}") from error


def _raw(content: bytes) -> bytes:
    return content


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _message(digest: Digest) -> Message:
    return api.Digest(hash=digest.hash, size_bytes=digest.size_bytes)
