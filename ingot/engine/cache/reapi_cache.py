"""Use Bazel's remote-execution API as shared cache: ActionCache, CAS and ByteStream.

Blobs are compressed with zstd in transfer if the server supports it.

Source: build.bazel.remote.execution.v2, remote_execution.proto; google.bytestream.
"""

from __future__ import annotations

import io
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from ingot.engine import reapi_pb2 as reapi
from ingot.engine.actions import Digest
from ingot.engine.cache import services_pb2 as api
from ingot.engine.cache.backend import BlobRejected, Kind, Timeouts, read_with_deadline
from ingot.engine.cache.grpc_channel import BYTES, V2, Channel, NotFound, guarded

if TYPE_CHECKING:
    from google.protobuf.message import Message

ZSTD = 1  # Compressor.Value

# gRPC limits a message to 4 MiB.
PIECE_BYTES = 1 << 20


def message(digest: Digest) -> reapi.Digest:
    """Return the digest as a message."""
    return reapi.Digest(hash=digest.hash, size_bytes=digest.size_bytes)


class ReapiBackend:
    """An instance of a server."""

    def __init__(
        self, address: str, authorization: str | None, timeouts: Timeouts
    ) -> None:
        """Remember the address; send nothing yet."""
        import zstandard  # noqa: F401 - fail now, not in the middle of a build

        self.name = address
        self._channel = Channel(address, authorization)
        self._instance = self._channel.instance
        self._timeouts = timeouts
        self._packs: bool | None = None

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the content in pieces; None if the server does not have it."""
        if kind == "ac":
            return self._result(digest)
        pieces = self._read(digest)
        # The response starts with the first piece; an empty blob has none.
        try:
            first = next(pieces, b"")
        except NotFound:
            return None
        return itertools.chain((first,), pieces)

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Upload the file."""
        if kind == "ac":
            request = api.UpdateActionResultRequest(
                instance_name=self._instance,
                action_digest=message(digest),
                action_result=path.read_bytes(),
            )
            self._ask(f"{V2}.ActionCache/UpdateActionResult", request, bytes)
            return
        name = f"uploads/{uuid.uuid4()}/{self._resource(digest)}"
        self._channel.send(
            f"{BYTES}/Write",
            self._writes(self._named(name), path),
            api.WriteRequest.SerializeToString,
            api.WriteResponse.FromString,
            self._seconds(digest.size_bytes),
        )

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs that the server does not have."""
        request = api.FindMissingBlobsRequest(
            instance_name=self._instance,
            blob_digests=[message(digest) for digest in digests],
        )
        if not request.blob_digests:
            return set()
        response = self._ask(
            f"{V2}.ContentAddressableStorage/FindMissingBlobs",
            request,
            api.FindMissingBlobsResponse.FromString,
        )
        return {
            Digest(item.hash, item.size_bytes) for item in response.missing_blob_digests
        }

    def _result(self, key: Digest) -> Iterator[bytes] | None:
        request = api.GetActionResultRequest(
            instance_name=self._instance, action_digest=message(key)
        )
        try:
            return iter(
                [self._ask(f"{V2}.ActionCache/GetActionResult", request, bytes)]
            )
        except NotFound:
            return None

    def _read(self, digest: Digest) -> Iterator[bytes]:
        stream = self._channel.stream(
            f"{BYTES}/Read",
            api.ReadRequest(resource_name=self._named(self._resource(digest))),
            api.ReadResponse.FromString,
            self._seconds(digest.size_bytes),
        )
        arriving = _arriving(stream)
        try:
            yield from _unpacked(arriving) if self._packed() else arriving
        finally:
            stream.cancel()

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
            yield from read_with_deadline(path, self._timeouts)
            return
        import zstandard

        packer = zstandard.ZstdCompressor().compressobj()
        for piece in read_with_deadline(path, self._timeouts):
            yield packer.compress(piece)
        yield packer.flush()

    def _packed(self) -> bool:
        """Return whether the server supports zstd; ask once."""
        if self._packs is None:
            response = self._ask(
                f"{V2}.Capabilities/GetCapabilities",
                api.GetCapabilitiesRequest(instance_name=self._instance),
                api.ServerCapabilities.FromString,
            )
            self._packs = ZSTD in response.cache_capabilities.supported_compressors
        return self._packs

    def _resource(self, digest: Digest) -> str:
        kind = "compressed-blobs/zstd" if self._packed() else "blobs"
        return f"{kind}/{digest.hash}/{digest.size_bytes}"

    def _named(self, resource: str) -> str:
        return f"{self._instance}/{resource}" if self._instance else resource

    def _ask(self, method: str, request: Any, decode: Callable[[bytes], Any]) -> Any:
        return self._channel.ask(method, request, decode, self._seconds(0))

    def _seconds(self, size_bytes: int) -> float:
        """Return how long a transfer of this size may take."""
        return self._timeouts.silent_s + size_bytes / self._timeouts.bytes_per_s


class _Joined(io.RawIOBase):
    """A file object that reads from an iterator of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """Return at most that many bytes; b"" at the end."""
        while not self._rest and (piece := next(self._pieces, None)) is not None:
            self._rest = piece
        part, self._rest = self._rest[:size], self._rest[size:]
        return part


def _unpacked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the uncompressed content in pieces that fit in memory."""
    import zstandard

    reader = zstandard.ZstdDecompressor().stream_reader(
        cast(IO[bytes], _Joined(pieces))
    )
    try:
        while piece := reader.read(PIECE_BYTES):
            yield piece
    except zstandard.ZstdError as error:
        raise BlobRejected(f"invalid zstd: {error}") from error


def _arriving(stream: Iterator[Any]) -> Iterator[bytes]:
    while (response := guarded(lambda: next(stream, None))) is not None:
        yield response.data
