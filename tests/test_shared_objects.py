"""A bucket as shared cache, against a small server of S3's protocol."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.edges.shared import objects
from ingot.values import Action
from tests.cache_server import Machine
from tests.s3_server import S3Server, serving_s3

ADDRESS = "s3://bucket/ingot"
ZEROS = Action(
    task="zeros:x",
    argv=("sh", "-c", "head -c 300000 /dev/zero > out.bin; : > empty"),
    inputs=(),
    outputs=("empty", "out.bin"),
    shown=("build/empty", "build/out.bin"),
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    with serving_s3() as running:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{running.server_port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "s3cret",
            "AWS_REGION": "eu-central-1",
        }.items():
            monkeypatch.setenv(name, value)
        yield running


def test_a_second_machine_fetches_what_the_first_sent(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "PIECE_BYTES", 100_001)
    first = Machine(tmp_path / "a", ADDRESS)
    second = Machine(tmp_path / "b", ADDRESS)
    assert first.build(ZEROS) == ["ran"]
    assert first.said == []
    name = hashlib.sha256(bytes(300_000)).hexdigest()
    assert f"/bucket/ingot/cas/{name}" in server.objects
    assert second.build(ZEROS) == ["fetched"]
    assert second.said == []
    assert (second.root / "build/out.bin").read_bytes() == bytes(300_000)


def test_a_poisoned_object_is_said_and_mended(server: S3Server, tmp_path: Path) -> None:
    Machine(tmp_path / "a", ADDRESS).build(ZEROS)
    name = f"/bucket/ingot/cas/{hashlib.sha256(bytes(300_000)).hexdigest()}"
    server.objects[name] = b"1" * 300_000
    second = Machine(tmp_path / "b", ADDRESS)
    assert second.build(ZEROS) == ["ran"]
    assert len(second.said) == 1
    assert "is damaged there" in second.said[0]
    assert server.objects[name] == bytes(300_000)


def test_a_refusal_is_said_once_and_shows_no_password(
    server: S3Server, tmp_path: Path
) -> None:
    server.refuses = 403
    machine = Machine(tmp_path / "a", ADDRESS)
    assert machine.build(ZEROS) == ["ran"]
    assert machine.said == [
        f"shared cache {ADDRESS}: it refuses access; the build goes on without it"
    ]
