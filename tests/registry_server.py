"""Provide a registry that misbehaves on demand, and run Debian's."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

TOKEN = "a-token"
BASIC = "Basic dXNlcjpwYXNzd29yZA=="  # user:password

CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


class RegistryServer(ThreadingHTTPServer):
    """Blobs and manifests in memory; `fault` says what goes wrong."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}  # by tag and by digest
        self.fault = ""
        self.knows_referrers = True
        self.login = ""  # "basic" or "bearer"
        self.asked: Counter[str] = Counter()  # "PUT blobs"
        self.sent_bytes = 0  # of blobs, by clients
        self.ranges: list[str] = []
        self.faults_left = 1

    @property
    def address(self) -> str:
        return f"oci://127.0.0.1:{self.server_port}/models/tiny"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up is what some tests are about."""

    def strikes(self, fault: str) -> bool:
        """Whether this fault happens now."""
        if self.fault != fault or self.faults_left == 0:
            return False
        self.faults_left -= 1
        return True


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: RegistryServer

    def handle_any(self) -> None:
        server, split = self.server, urlsplit(self.path)
        if split.path == "/token":
            self.give_token()
            return
        place = split.path.removeprefix("/v2/models/tiny/")
        kind, _, name = place.partition("/")
        server.asked[f"{self.command} {kind}"] += 1
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if server.fault == "refuses":
            error = {"code": "DENIED", "message": "not for you\x1b[31m"}
            self.answer(403, json.dumps({"errors": [error]}).encode())
        elif server.strikes("is busy"):
            self.answer(503)
        elif self.knows_user():
            getattr(self, kind.replace("/", "_"))(name, body, parse_qs(split.query))

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def knows_user(self) -> bool:
        wanted = {"": None, "basic": BASIC, "bearer": f"Bearer {TOKEN}"}
        if self.headers.get("Authorization") == wanted[self.server.login]:
            return True
        realm = f"http://127.0.0.1:{self.server.server_port}/token"
        asks = {
            "basic": 'Basic realm="here"',
            "bearer": f'Bearer realm="{realm}",service="s",scope="pull,push"',
        }
        self.answer(401, b"{}", {"WWW-Authenticate": asks[self.server.login]})
        return False

    def give_token(self) -> None:
        known = self.headers.get("Authorization") == BASIC
        content = json.dumps({"token": TOKEN}).encode()
        self.answer(200 if known else 401, content if known else b"{}")

    def blobs(self, name: str, body: bytes, query: dict[str, list[str]]) -> None:
        server = self.server
        if self.command == "POST":
            where = "ftp://elsewhere/" if server.fault == "sends away" else self.path
            self.answer(202, b"", {"Location": f"{where}1?state=x"})
        elif self.command == "PUT":
            (digest,) = query["digest"]
            server.sent_bytes += len(body)
            if server.strikes("breaks an upload"):
                self.close_connection = True
                return
            right = f"sha256:{hashlib.sha256(body).hexdigest()}" == digest
            server.blobs[digest] = body
            self.answer(201 if right else 400)
        elif name not in server.blobs:
            self.answer(404)
        else:
            self.send_blob(server.blobs[name])

    def send_blob(self, content: bytes) -> None:
        server, start, status = self.server, 0, 200
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if asked and server.fault != "knows no ranges":
            start, status = int(asked[1]), 206
            server.ranges.append(asked[0])
        if server.fault == "lies":
            content = bytes(len(content))
        if server.fault == "sends more":
            content += b"more"
        content = content[start:]
        cut = self.command == "GET" and len(content) > 100 and server.strikes("stops")
        self.answer(
            status, content[: len(content) // 2] if cut else content, {}, len(content)
        )

    def manifests(self, name: str, body: bytes, query: dict[str, list[str]]) -> None:
        server = self.server
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        if self.command == "PUT":
            stored = (self.headers["Content-Type"], body)
            server.manifests |= {name: stored, digest: stored}
            headers = {"Docker-Content-Digest": digest}
            if server.fault == "stores another":
                headers["Docker-Content-Digest"] = f"sha256:{'0' * 64}"
            if "subject" in json.loads(body) and server.knows_referrers:
                headers["OCI-Subject"] = json.loads(body)["subject"]["digest"]
            self.answer(201, b"", headers)
        elif self.command == "DELETE":
            kept = {
                key: value
                for key, value in server.manifests.items()
                if f"sha256:{hashlib.sha256(value[1]).hexdigest()}" != name
            }
            server.manifests = kept
            self.answer(405 if server.fault == "keeps all" else 202)
        elif name not in server.manifests:
            self.answer(404)
        else:
            kind, content = server.manifests[name]
            if server.fault == "other document" and name.startswith("sha256:"):
                content = content.replace(b"tiny", b"tidy")
            if server.fault == "endless document":
                content = b" " * (5 << 20)
            if server.fault == "no document":
                content = b"<html>"
            self.answer(200, content, {"Content-Type": kind})

    def tags(self, name: str, body: bytes, query: dict[str, list[str]]) -> None:
        tags = sorted(x for x in self.server.manifests if not x.startswith("sha256:"))
        last = query.get("last", [""])[0]
        page = [tag for tag in tags if tag > last][:2]
        headers = {}
        if page and page[-1] != tags[-1]:
            headers["Link"] = f'</v2/models/tiny/tags/list?last={page[-1]}>; rel="next"'
        self.answer(200, json.dumps({"tags": page}).encode(), headers)

    def referrers(self, name: str, body: bytes, query: dict[str, list[str]]) -> None:
        if not self.server.knows_referrers:
            self.answer(404)
            return
        found = []
        for key, (kind, content) in self.server.manifests.items():
            value = json.loads(content)
            if (
                key.startswith("sha256:")
                and value.get("subject", {}).get("digest") == name
            ):
                described = {"mediaType": kind, "digest": key, "size": len(content)}
                found.append({**described, "artifactType": value["artifactType"]})
        kind = "application/vnd.oci.image.index.v1+json"
        listed = {"schemaVersion": 2, "mediaType": kind, "manifests": found}
        self.answer(200, json.dumps(listed).encode(), {"Content-Type": kind})

    def answer(
        self,
        status: int,
        content: bytes = b"",
        headers: dict[str, str] | None = None,
        said: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        length = len(content) if said is None else said
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        if length != len(content):
            self.close_connection = True

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """A registry that misbehaves when `fault` says so."""
    with RegistryServer() as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


@contextmanager
def docker_registry(folder: Path) -> Iterator[str]:
    """The address of a repository in Debian's registry, which knows no referrers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir(parents=True)
    config = folder / "config.yml"
    config.write_text(CONFIG.format(folder=folder / "files", port=port))
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            ["/usr/bin/docker-registry", "serve", str(config)], stdout=log, stderr=log
        )
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"oci://127.0.0.1:{port}/models/tiny"
        finally:
            server.terminate()
            server.wait()
