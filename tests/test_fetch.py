"""Test that a pinned file is fetched completely, or the error names the cause."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ingot.engine.actions import InlineText, SourceFile
from ingot.errors import IngotError
from ingot.model.weight_sources import UrlSection, find_file
from ingot.programs.fetch.main import fetch
from ingot.stages.fetch import plan_fetch

ROOT = Path(__file__).parents[1]


class Server(BaseHTTPRequestHandler):
    """Serves `/good`, and what servers do wrong."""

    content = bytes(range(256)) * 1000
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path == "/down" or (
            self.path == "/flaky" and self.requests.count("/flaky") < 3
        ):
            self.send_error(503)
            return
        content = self.content
        if self.path == "/wrong":
            content = content[::-1]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[:-1] if self.path == "/truncated" else content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


SHA256 = hashlib.sha256(Server.content).hexdigest()


@pytest.fixture
def server() -> Iterator[str]:
    Server.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["/good", "/flaky"])
def test_a_pinned_file_is_fetched(server: str, path: str, tmp_path: Path) -> None:
    output = tmp_path / "w.safetensors"
    fetch(server + path, SHA256, output, pause_s=0)
    assert output.read_bytes() == Server.content
    assert list(tmp_path.iterdir()) == [output]


@pytest.mark.parametrize(
    ("path", "message", "tries"),
    [
        ("/missing", "cannot be fetched; the server responded 404 Not Found", 1),
        ("/down", "cannot be fetched; the server responded 503 Service Unavailable", 3),
        (
            "/truncated",
            "cannot be fetched; the connection ended early; expected 256000 bytes,"
            " found 255999",
            3,
        ),
        (
            "/wrong",
            f"not the pinned file; expected sha256 {SHA256}, found"
            f" {hashlib.sha256(Server.content[::-1]).hexdigest()}",
            1,
        ),
    ],
    ids=["missing", "down", "truncated", "wrong_bytes"],
)
def test_a_file_that_cannot_be_had_is_an_error_and_leaves_no_output(
    server: str, path: str, message: str, tries: int, tmp_path: Path
) -> None:
    output = tmp_path / "w.safetensors"
    with pytest.raises(IngotError) as caught:
        fetch(server + path, SHA256, output, pause_s=0)
    assert caught.value.message == f"{server}{path}: {message}"
    assert caught.value.hint
    assert not output.exists()
    assert Server.requests == [path] * tries


def test_a_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    url = "http://127.0.0.1:9/w.safetensors"  # the discard port: nothing listens
    with pytest.raises(IngotError) as caught:
        fetch(url, SHA256, tmp_path / "w", pause_s=0)
    assert re.fullmatch(
        rf"{url}: cannot be fetched; .*Connection refused.*", caught.value.message
    )


def test_a_fetch_runs_as_a_program(server: str, tmp_path: Path) -> None:
    section = UrlSection(kind="url", url=f"{server}/good", sha256=SHA256)
    action = plan_fetch(find_file(section, Path(), ""))
    for name, source in action.inputs:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, InlineText):
            path.write_text(source.text)
        else:
            assert isinstance(source, SourceFile)
            path.symlink_to(source.path)
    subprocess.run(
        [sys.executable, *action.argv[1:]],
        cwd=tmp_path,
        env={"PYTHONPATH": ".", "PYTHONDONTWRITEBYTECODE": "1"},
        check=True,
    )
    assert (tmp_path / action.outputs[0]).read_bytes() == Server.content
