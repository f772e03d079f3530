"""Test that a failure of a shared cache is reported once and the build continues."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
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
