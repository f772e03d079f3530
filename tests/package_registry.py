"""Serve packages as PyPI and npm do, on this machine, and what servers do wrong."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


def wheel(name: str, version: str, files: dict[str, bytes]) -> bytes:
    """Return a wheel with these files."""
    content, folder = io.BytesIO(), f"{name}-{version}.dist-info"
    about = {
        f"{folder}/METADATA": f"Metadata-Version: 2.1\nName: {name}\n"
        f"Version: {version}\n",
        f"{folder}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
        f"{folder}/RECORD": "",
    }
    with zipfile.ZipFile(content, "w") as archive:
        for path, data in files.items():
            archive.writestr(path, data)
        for path, text in about.items():
            archive.writestr(path, text)
    return content.getvalue()


def npm_tar(files: dict[str, bytes], top: str = "package") -> bytes:
    """Return an npm package's archive with these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def integrity(content: bytes) -> str:
    """Return the digest of a package as npm writes it."""
    return f"sha512-{base64.b64encode(hashlib.sha512(content).digest()).decode()}"


class Registry(ThreadingHTTPServer):
    """Serves files by path; a path in `cut` breaks off one byte early."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.cut: set[str] = set()
        self.failures: dict[str, int] = {}  # by path: that many answers are 503
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def add_npm(self, name: str, version: str, content: bytes) -> None:
        """Publish an npm package of one version."""
        path = f"/{name}/-/{version}.tgz"
        self.files[path] = content
        dist = {"tarball": self.url + path, "integrity": integrity(content)}
        described = {"versions": {version: {"dist": dist}}}
        self.files[f"/{name.replace('/', '%2F')}"] = json.dumps(described).encode()

    def add_wheel(self, name: str, version: str, content: bytes) -> None:
        """Publish a wheel."""
        file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        self.files[f"/{file}"] = content
        page = f'<!DOCTYPE html><a href="/{file}">{file}</a>'
        self.files[f"/simple/{name}/"] = page.encode()


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        registry, path = self.server, self.path
        registry.requests.append(path)
        if registry.failures.get(path, 0) > 0:
            registry.failures[path] -= 1
            self.send_error(503)
            return
        if path not in registry.files:
            self.send_error(404)
            return
        content = registry.files[path]
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:-1] if path in registry.cut else content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Registry]:
    """Serve packages while the context is open."""
    with Registry() as registry:
        options = {"poll_interval": 0.01}
        thread = Thread(target=registry.serve_forever, kwargs=options)
        thread.start()
        try:
            yield registry
        finally:
            registry.shutdown()
            thread.join()
