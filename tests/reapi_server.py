"""Serve the cache of Bazel's remote-execution API, without a sandbox.

Written from the protocol: each request is checked as a server of others would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeAlias

import grpc
import zstandard

from ingot.engine.cache import services_pb2 as api

V2 = "build.bazel.remote.execution.v2"

# Service, method, what it is asked with, the kind of call.
Method: TypeAlias = tuple[str, str, Any, str]


class ReapiServer:
    """An instance named `main` over two dictionaries."""

    def __init__(self, packs: bool) -> None:
        self.packs = packs
        self.results: dict[str, bytes] = {}
        self.blobs: dict[str, bytes] = {}
        self.refuses = grpc.StatusCode.OK
        self.moved_bytes = 0
        self.port = 0

    @property
    def address(self) -> str:
        return f"grpc://127.0.0.1:{self.port}/main"

    def get_action_result(self, request: Any, context: Any) -> bytes:
        if request.action_digest.hash not in self.results:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such action")
        return self.results[request.action_digest.hash]

    def update_action_result(self, request: Any, context: Any) -> bytes:
        self.results[request.action_digest.hash] = request.action_result
        return bytes(request.action_result)

    def find_missing_blobs(self, request: Any, context: Any) -> Any:
        asked = request.blob_digests
        missing = [item for item in asked if item.hash not in self.blobs]
        return api.FindMissingBlobsResponse(missing_blob_digests=missing)

    def get_capabilities(self, request: Any, context: Any) -> Any:
        packed = api.CacheCapabilities(
            supported_compressors=[0, 1] if self.packs else []
        )
        return api.ServerCapabilities(cache_capabilities=packed)

    def read(self, request: Any, context: Any) -> Iterator[Any]:
        *kind, name, _ = request.resource_name.removeprefix("main/").split("/")
        if name not in self.blobs:
            context.abort(grpc.StatusCode.NOT_FOUND, "no such blob")
        content = self.blobs[name]
        if kind == ["compressed-blobs", "zstd"]:
            content = zstandard.compress(content)
        self.moved_bytes += len(content)
        for start in range(0, len(content), 1000):
            yield api.ReadResponse(data=content[start : start + 1000])

    def write(self, requests: Iterator[Any], context: Any) -> Any:
        content, name, ended = b"", "", False
        for request in requests:
            assert request.write_offset == len(content)
            name = request.resource_name or name
            content += request.data
            ended = request.finish_write
        self.moved_bytes += len(content)
        committed = len(content)
        *kind, digest, size = name.removeprefix("main/uploads/").split("/")[1:]
        if kind == ["compressed-blobs", "zstd"]:
            content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        right = hashlib.sha256(content).hexdigest() == digest
        if not (ended and right and len(content) == int(size)):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "this is another blob")
        self.blobs[digest] = content
        return api.WriteResponse(committed_size=committed)

    def methods(self) -> tuple[Method, ...]:
        cas, cache = f"{V2}.ContentAddressableStorage", f"{V2}.ActionCache"
        capabilities, stream = f"{V2}.Capabilities", "google.bytestream.ByteStream"
        return (
            (cache, "GetActionResult", api.GetActionResultRequest, "unary_unary"),
            (cache, "UpdateActionResult", api.UpdateActionResultRequest, "unary_unary"),
            (cas, "FindMissingBlobs", api.FindMissingBlobsRequest, "unary_unary"),
            (
                capabilities,
                "GetCapabilities",
                api.GetCapabilitiesRequest,
                "unary_unary",
            ),
            (stream, "Read", api.ReadRequest, "unary_stream"),
            (stream, "Write", api.WriteRequest, "stream_unary"),
        )

    def handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        for service, method, request, kind in self.methods():
            snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in method)[1:]
            handler = getattr(grpc, f"{kind}_rpc_method_handler")(
                self._watched(getattr(self, snake)), request.FromString, encoded
            )
            yield grpc.method_handlers_generic_handler(service, {method: handler})

    def _watched(self, method: Any) -> Any:
        def watched(request: Any, context: Any) -> Any:
            if self.refuses is not grpc.StatusCode.OK:
                context.abort(self.refuses, "as the test wants")
            return method(request, context)

        return watched


def encoded(answer: Any) -> bytes:
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


@contextmanager
def serving_reapi(packs: bool = True) -> Iterator[ReapiServer]:
    """Yield a server that runs until the block ends."""
    server = ReapiServer(packs)
    with listening(server):
        yield server


@contextmanager
def listening(server: ReapiServer) -> Iterator[None]:
    """Let a server answer until the block ends, at the port that it had before."""
    running = grpc.server(ThreadPoolExecutor(64))
    for handler in server.handlers():
        running.add_generic_rpc_handlers((handler,))
    server.port = running.add_insecure_port(f"127.0.0.1:{server.port}")
    running.start()
    try:
        yield
    finally:
        running.stop(None).wait()
