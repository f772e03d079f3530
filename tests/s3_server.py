"""A small S3 server: objects of one bucket, by GET, HEAD and PUT."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class S3Server(ThreadingHTTPServer):
    """The bucket's objects, and whether requests are refused."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.refuses = 0


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: S3Server

    def do_GET(self) -> None:
        content = self.server.objects.get(self.path)
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
        if not self.server.refuses:
            assert self.headers["Authorization"].startswith("AWS4-HMAC-SHA256 ")
            self.server.objects[self.path] = content
        self.answer(self.server.refuses or 200)

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
def serving_s3() -> Iterator[S3Server]:
    """Yield a server that runs until the block ends."""
    server = S3Server()
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
