"""Test a bucket as shared cache, against a small server of all three protocols."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.engine.actions import Action
from ingot.engine.cache import bucket_cache
from ingot.engine.cache.backend import Timeouts
from ingot.engine.cache.cache_address import connect
from ingot.errors import IngotError
from tests.bucket_server import BucketServer, serving_bucket
from tests.cache_server import IMPATIENT, Machine

ZEROS = Action(
    task="zeros:x",
    argv=("sh", "-c", "head -c 300000 /dev/zero > out.bin; : > empty"),
    inputs=(),
    outputs=("empty", "out.bin"),
    exported_to=("build/empty", "build/out.bin"),
)
BLOB = f"/bucket/ingot/cas/{hashlib.sha256(bytes(300_000)).hexdigest()}"

# How each provider identifies the client, in the header of a request.
WHO = {"s3": "AWS4-HMAC-SHA256", "gs": "Bearer", "az": "SharedKey"}


@pytest.fixture
def server() -> Iterator[BucketServer]:
    with serving_bucket() as running:
        yield running


@pytest.fixture(params=WHO)
def address(
    request: pytest.FixtureRequest,
    server: BucketServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """The bucket as each provider has it, with its own variables."""
    known = tmp_path / "service-account.json"
    names = ("client_email", "private_key", "private_key_id")
    account = {"gcs_base_url": server.url, "disable_oauth": True}
    known.write_text(json.dumps(account | dict.fromkeys(names, "")))
    for name, value in {
        "AWS_ENDPOINT_URL": server.url,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "AWS_REGION": "eu-central-1",
        "AZURE_STORAGE_ENDPOINT": server.url,
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ACCOUNT_KEY": "czNjcmV0",
        "GOOGLE_SERVICE_ACCOUNT": str(known),
    }.items():
        monkeypatch.setenv(name, value)
    return f"{request.param}://bucket/ingot"


def test_a_second_machine_fetches_the_results_of_the_first(
    server: BucketServer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_cache, "PIECE_BYTES", 100_001)
    first = Machine(tmp_path / "a", address)
    second = Machine(tmp_path / "b", address, writes=False)
    assert first.build(ZEROS) == ["ran"]
    assert first.reported == []
    assert BLOB in server.objects
    assert server.authorizations == {WHO[address[:2]]}
    sent = dict(server.objects)
    assert second.build(ZEROS) == ["fetched"]
    assert second.reported == []
    assert (second.root / "build/out.bin").read_bytes() == bytes(300_000)
    assert server.objects == sent


def test_a_corrupt_object_is_reported_and_replaced(
    server: BucketServer, address: str, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", address).build(ZEROS)
    server.objects[BLOB] = b"1" * 300_000
    second = Machine(tmp_path / "b", address)
    assert second.build(ZEROS) == ["ran"]
    assert len(second.reported) == 1
    assert "is corrupt there" in second.reported[0]
    assert server.objects[BLOB] == bytes(300_000)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "authentication failed"),
        (403, "access denied"),
        (501, "HEAD failed with 501 Not Implemented"),
    ],
)
def test_a_rejection_is_reported_once_and_shows_no_password(
    server: BucketServer, address: str, tmp_path: Path, status: int, reason: str
) -> None:
    server.refuses = status
    machine = Machine(tmp_path / "a", address)
    assert machine.build(ZEROS) == ["ran"]
    assert machine.reported == [
        f"shared cache {address}: {reason}; the build continues without it"
    ]


def test_a_missing_bucket_is_reported_at_the_first_upload(
    server: BucketServer, address: str, tmp_path: Path
) -> None:
    machine = Machine(tmp_path / "a", address)
    server.missing = True
    assert machine.build(ZEROS) == ["ran"]
    assert machine.reported == [
        f"shared cache {address}: the bucket does not exist;"
        " the build continues and uploads nothing"
    ]


def test_the_build_gives_up_on_a_server_that_hangs(
    server: BucketServer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket_cache, "PIECE_BYTES", 1)
    server.hangs = True
    machine = Machine(tmp_path / "a", address, timeouts=IMPATIENT)
    assert machine.build(ZEROS) == ["ran"]
    assert machine.reported == [
        f"shared cache {address}: no response; the build continues without it"
    ]


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("http://me:s3cret@127.0.0.1:9", "no connection"),
        ("127.0.0.1:9", "its endpoint is not a URL; expected http://HOST:PORT"),
    ],
)
def test_an_unreachable_endpoint_is_reported_without_its_password(
    endpoint: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    machine = Machine(tmp_path / "a", "s3://bucket/ingot")
    assert machine.build(ZEROS) == ["ran"]
    assert machine.reported == [
        f"shared cache s3://bucket/ingot: {reason}; the build continues without it"
    ]


@pytest.mark.parametrize(
    ("place", "name", "value", "reason"),
    [
        ("az://bucket", "", "", "account must be specified"),
        (
            "az://bucket",
            "AZURE_STORAGE_USE_EMULATOR",
            "s3cret",
            "failed to parse ... as boolean",
        ),
        (
            "gs://bucket",
            "GOOGLE_SERVICE_ACCOUNT_KEY",
            '"s3cret"',
            "unable to decode service account file: invalid type: string ...,"
            " expected struct ServiceAccountCredentials at line 1 column 8",
        ),
    ],
)
def test_wrong_variables_are_rejected_and_not_quoted(
    place: str, name: str, value: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name:
        monkeypatch.setenv(name, value)
    with pytest.raises(IngotError) as caught:
        connect(place, {}, Timeouts())
    assert str(caught.value) == (
        f"shared cache {place}: {reason}\n"
        "  expected BUCKET/PREFIX; docs/sharing.md lists the variables for"
        " credentials"
    )
    assert caught.value.__cause__ is None
