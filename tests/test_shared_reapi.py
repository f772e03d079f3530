"""Test Bazel's remote-execution API as shared cache, against a small server."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import grpc
import pytest

from ingot.engine.actions import Action
from tests.cache_server import IMPATIENT, Machine
from tests.reapi_server import serving_reapi

ZEROS = Action(
    task="zeros:x",
    argv=("sh", "-c", "head -c 3000000 /dev/zero > out.bin; : > empty"),
    inputs=(),
    outputs=("empty", "out.bin"),
    exported_to=("build/empty", "build/out.bin"),
)


@pytest.mark.parametrize("packs", [True, False], ids=["zstd", "plain"])
def test_a_second_machine_fetches_the_results_of_the_first(
    tmp_path: Path, packs: bool
) -> None:
    with serving_reapi(packs) as server:
        first = Machine(tmp_path / "a", server.address)
        second = Machine(tmp_path / "b", server.address)
        assert first.build(ZEROS) == ["ran"]
        assert second.build(ZEROS) == ["fetched"]
        assert first.reported == second.reported == []
        assert (second.root / "build/out.bin").read_bytes() == bytes(3_000_000)
        assert (server.moved_bytes < 100_000) == packs


def test_a_corrupt_blob_is_reported_and_rebuilt(tmp_path: Path) -> None:
    with serving_reapi() as server:
        Machine(tmp_path / "a", server.address).build(ZEROS)
        server.blobs[hashlib.sha256(bytes(3_000_000)).hexdigest()] = b"evil"
        second = Machine(tmp_path / "b", server.address)
        assert second.build(ZEROS) == ["ran"]
        assert len(second.reported) == 1
        assert "is corrupt there; it is discarded and rebuilt" in second.reported[0]
        assert Machine(tmp_path / "c", server.address).build(ZEROS) == ["fetched"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.UNAUTHENTICATED, "authentication failed"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "it is full"),
        (grpc.StatusCode.INTERNAL, "INTERNAL: as the test wants"),
        (grpc.StatusCode.UNAVAILABLE, "no connection"),
    ],
)
def test_a_rejection_is_reported_once_and_the_build_continues(
    tmp_path: Path, code: grpc.StatusCode, reason: str
) -> None:
    with serving_reapi() as server:
        server.refuses = code
        machine = Machine(tmp_path / "a", server.address)
        assert machine.build(ZEROS, ZEROS) == ["ran"]
        assert machine.reported == [
            f"shared cache {server.address}: {reason}; the build continues without it"
        ]


def test_a_server_that_does_not_respond_is_reported_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"grpc://127.0.0.1:{silent.getsockname()[1]}"
        machine = Machine(tmp_path / "a", address, timeouts=IMPATIENT)
        assert machine.build(ZEROS) == ["ran"]
    assert machine.reported == [
        f"shared cache {address}: no response; the build continues without it"
    ]
