"""Serve repositories as Hugging Face's hub does, on this machine.

Files of weights are on a second server, to which the hub redirects, as the real one
does; that one must not see a token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves one revision of each repository; its weights are at `storage`."""

    def __init__(self, storage: Storage) -> None:
        super().__init__(("127.0.0.1", 0), _HubHandler)
        self.storage = storage
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.token = ""  # that requests need
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class Storage(ThreadingHTTPServer):
    """Serves weights by path; breaks off once at the bytes in `cut`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _StorageHandler)
        self.files: dict[str, bytes] = {}
        self.cut: dict[str, int] = {}
        self.tokens: list[str] = []  # that it has seen
        self.ranges: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _HubHandler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.requests.append(path)
        if self.server.token and self.headers.get("Authorization") != (
            f"Bearer {self.server.token}"
        ):
            self.send_error(401)
            return
        for repo, files in self.server.repositories.items():
            for revision in ("main", COMMIT):
                if path == f"/api/models/{repo}/revision/{revision}":
                    self.answer(json.dumps(described(files)).encode())
                    return
            name = path.removeprefix(f"/{repo}/resolve/{COMMIT}/")
            if name in files:
                self.file(path, name, files[name])
                return
        self.send_error(404)

    def file(self, path: str, name: str, content: bytes) -> None:
        """Answer with a small file, or with where a large one is."""
        if not name.endswith(".safetensors"):
            self.answer(content)
            return
        storage = self.server.storage
        storage.files[path] = content
        self.send_response(302)
        self.send_header("Location", storage.url + path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, content: bytes) -> None:
        """Answer with this content."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _StorageHandler(BaseHTTPRequestHandler):
    server: Storage

    def do_GET(self) -> None:
        content = self.server.files[self.path]
        given = self.headers.get("Range")
        self.server.ranges.append(given)
        if token := self.headers.get("Authorization"):
            self.server.tokens.append(token)
        start, end = 0, len(content)
        if given:
            first, _, last = given.removeprefix("bytes=").partition("-")
            start, end = int(first), int(last) + 1 if last else len(content)
        self.send_response(206 if given else 200)
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        end = min(end, self.server.cut.pop(self.path, end))
        self.wfile.write(content[start:end])

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def described(files: dict[str, bytes]) -> dict[str, Any]:
    """What the hub says about a repository with these files."""
    return {"sha": COMMIT, "siblings": [_file(*item) for item in files.items()]}


def _file(name: str, content: bytes) -> dict[str, Any]:
    about: dict[str, Any] = {"rfilename": name, "size": len(content)}
    if name.endswith((".safetensors", ".bin")):
        digest = hashlib.sha256(content).hexdigest()
        about["lfs"] = {"sha256": digest, "size": len(content)}
    return about


@contextmanager
def serving() -> Iterator[Hub]:
    """Serve a hub while the context is open."""
    with Storage() as storage, Hub(storage) as hub:
        threads = [
            Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            for server in (storage, hub)
        ]
        for thread in threads:
            thread.start()
        try:
            yield hub
        finally:
            storage.shutdown()
            hub.shutdown()
            for thread in threads:
                thread.join()
