"""Serve one bucket with GET, HEAD and PUT, which S3, GCS and Azure have in common."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import unquote


class BucketServer(ThreadingHTTPServer):
    """The bucket's objects by path, and what goes wrong."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.authorizations: set[str] = set()
        self.refuses = 0  # every request, with this status
        self.missing = False  # the bucket
        self.hangs = False
        self.over = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: BucketServer

    def do_GET(self) -> None:
        if self.server.hangs:
            self.server.over.wait(20)
        content = self.server.objects.get(unquote(self.path))
        if self.server.refuses or content is None:
            self.answer(self.server.refuses or 404)
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")
        if asked is None:
            self.answer(200, content)
            return
        start, end = int(asked[1]), int(asked[2]) + 1
        place = f"bytes {start}-{end - 1}/{len(content)}"
        self.answer(206, content[start:end], {"Content-Range": place})

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        refusal = self.server.refuses or (404 if self.server.missing else 0)
        if not refusal:
            who = self.headers["Authorization"].partition(" ")[0]
            self.server.authorizations.add(who)
            self.server.objects[unquote(self.path)] = content
        self.answer(refusal or 201)

    def answer(
        self, status: int, content: bytes = b"", more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        etag = hashlib.md5(content).hexdigest()
        for name, value in {
            "Content-Length": str(len(content)),
            "ETag": f'"{etag}"',
            "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
            **(more or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving_bucket() -> Iterator[BucketServer]:
    """Yield a server that runs until the block ends."""
    server = BucketServer()
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
