"""Test that a failure of a shared cache is reported once and the build continues."""

from __future__ import annotations

import contextlib
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine.actions import Action, InlineText
from ingot.engine.cache import shared_cache
from ingot.engine.cache.backend import Timeouts
from tests.cache_server import IMPATIENT, CacheServer, Machine, serving
from tests.small_actions import COUNT, OUT, UPPER


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as running:
        yield running


FAULTS = {
    "hangs": "no response; the build continues without it",
    "trickles": "the transfer is too slow; the build continues without it",
    "500": "GET failed with 500 Internal Server Error; the build continues without it",
    "301": "GET failed with 301 Moved Permanently; the build continues without it",
    "ends too soon": "the transfer was interrupted; the build continues without it",
    "says more than it sends": "the transfer was interrupted;"
    " the build continues without it",
    "says less than it sends": f"blob {OUT[:12]} is corrupt there;"
    " it is discarded and rebuilt",
    "another blob": f"blob {OUT[:12]} is corrupt there; it is discarded and rebuilt",
    "longer": f"blob {OUT[:12]} is corrupt there; it is discarded and rebuilt",
}


@pytest.mark.usefixtures("blobs_apart")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_download_is_reported_once_and_the_build_continues(
    server: CacheServer, tmp_path: Path, fault: str
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    server.fault = fault
    second = Machine(tmp_path / "b", server.url, timeouts=IMPATIENT)
    assert second.build(UPPER, COUNT) == ["ran", "ran"]
    assert second.reported == [f"shared cache {server.url}: {FAULTS[fault]}"]
    assert (second.root / "build/count.txt").read_text().strip() == "3"


@pytest.mark.usefixtures("blobs_apart")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_cache_that_responded_fast_may_fail_too(
    server: CacheServer, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_cache, "NEAR_S", math.inf)
    upper = replace(
        UPPER, inputs=(("in.txt", InlineText("xyz")),), task="xyz:x", exported_to=()
    )
    Machine(tmp_path / "a", server.url).build(upper, UPPER)
    second = Machine(tmp_path / "b", server.url, timeouts=IMPATIENT)
    assert second.build(upper) == ["fetched"]
    server.fault, asked = fault, server.asked["GET"]
    assert second.build(UPPER) == ["ran"]
    assert second.reported == [f"shared cache {server.url}: {FAULTS[fault]}"]
    if "damaged" in FAULTS[fault]:
        # The result, and its first blob; neither once more.
        assert server.asked["GET"] == asked + 2


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("full", "PUT failed with 507 Insufficient Storage"),
        ("read-only", "PUT failed with 403 Forbidden"),
    ],
)
def test_a_failed_upload_is_reported_once_and_downloads_continue(
    server: CacheServer, tmp_path: Path, fault: str, reason: str
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    server.fault = fault
    second = Machine(tmp_path / "b", server.url)
    other = Action(task="o:x", argv=("touch", "o"), inputs=(), outputs=("o",))
    assert second.build(other, UPPER, COUNT) == ["ran", "fetched", "ran"]
    assert second.reported == [
        f"shared cache {server.url}: {reason}; the build continues and uploads nothing"
    ]


def test_the_build_waits_for_a_slow_server(server: CacheServer, tmp_path: Path) -> None:
    server.fault = "takes its time"
    # Longer than a connection may take: the body has been sent by then.
    timeouts = Timeouts(connect_s=0.3, silent_s=30)
    machine = Machine(tmp_path / "a", server.url, timeouts=timeouts)
    assert machine.build(UPPER) == ["ran"]
    assert machine.reported == []
    assert any("/ac/" in path for path in server.files)


def test_a_server_that_is_down_is_reported_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    machine = Machine(tmp_path / "a", url)
    assert machine.build(UPPER, COUNT) == ["ran", "ran"]
    assert machine.reported == [
        f"shared cache {url}: no connection: Connection refused;"
        " the build continues without it"
    ]


def drip(connection: socket.socket, first: bytes, again: bytes, wait_s: float) -> None:
    """Send the first bytes, and others without end."""
    try:
        connection.recv(1 << 16)
        connection.sendall(first)
        while True:
            connection.sendall(again)
            time.sleep(wait_s)
    except OSError:
        connection.close()


@contextmanager
def dripping(first: bytes, again: bytes, wait_s: float) -> Iterator[str]:
    """Yield the address of a server that never completes a response."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    arguments = (server.accept()[0], first, again, wait_s)
                    threading.Thread(target=drip, args=arguments, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "again", "wait_s"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.0),
        (b"HTTP/1.1 200 OK\r\n", b"x", 0.1),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n", 0.1),
        (CHUNKED, b"0", 0.1),
    ],
    ids=["100 Continue", "part of a header", "headers", "size of a chunk"],
)
def test_a_response_without_end_does_not_hold_the_build(
    tmp_path: Path, first: bytes, again: bytes, wait_s: float
) -> None:
    # With these, 1.2 s for the headers and no more for an empty body.
    timeouts = Timeouts(connect_s=0.6, silent_s=0.6, bytes_per_s=1e8)
    with dripping(first, again, wait_s) as url:
        machine = Machine(tmp_path / "a", url, timeouts=timeouts)
        start = time.monotonic()
        assert machine.build(UPPER, COUNT) == ["ran", "ran"]
        assert time.monotonic() - start < 10
    assert machine.reported == [
        f"shared cache {url}: the transfer is too slow; the build continues without it"
    ]
