"""A small server of Bazel's remote-execution API: its cache, without a sandbox.

Written from the protocol: each request is checked as a server of others would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import zstandard

from ingot.edges.shared import services_pb2 as api


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

    def handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        v2 = "build.bazel.remote.execution.v2"
        for service, method, request, answer in (
            (f"{v2}.ActionCache", "GetActionResult", "GetActionResultRequest", ""),
            (
                f"{v2}.ActionCache",
                "UpdateActionResult",
                "UpdateActionResultRequest",
                "",
            ),
            (
                f"{v2}.ContentAddressableStorage",
                "FindMissingBlobs",
                "FindMissingBlobsRequest",
                "FindMissingBlobsResponse",
            ),
            (
                f"{v2}.Capabilities",
                "GetCapabilities",
                "GetCapabilitiesRequest",
                "ServerCapabilities",
            ),
            ("google.bytestream.ByteStream", "Read", "ReadRequest", "ReadResponse"),
            ("google.bytestream.ByteStream", "Write", "WriteRequest", "WriteResponse"),
        ):
            kind = {"Read": "unary_stream", "Write": "stream_unary"}.get(
                method, "unary_unary"
            )
            snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in method)[1:]
            make = getattr(grpc, f"{kind}_rpc_method_handler")
            handler = make(
                self._watched(getattr(self, snake)),
                getattr(api, request).FromString,
                getattr(api, answer).SerializeToString if answer else None,
            )
            yield grpc.method_handlers_generic_handler(service, {method: handler})

    def _watched(self, method: Any) -> Any:
        def watched(request: Any, context: Any) -> Any:
            if self.refuses is not grpc.StatusCode.OK:
                context.abort(self.refuses, "as the test wants")
            return method(request, context)

        return watched


@contextmanager
def serving_reapi(packs: bool = True) -> Iterator[ReapiServer]:
    """Yield a server that runs until the block ends."""
    server = ReapiServer(packs)
    running = grpc.server(ThreadPoolExecutor(8))
    for handler in server.handlers():
        running.add_generic_rpc_handlers((handler,))
    server.port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    try:
        yield server
    finally:
        running.stop(None).wait()
