"""Test which results a shared cache gives and gets, and that its faults do no harm."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import action_results, executor
from ingot.engine.actions import Action
from ingot.engine.cache import shared_cache
from tests.cache_server import CacheServer, Machine, serving
from tests.small_actions import COUNT, OUT, UPPER


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as running:
        yield running


def test_a_second_machine_fetches_the_results_of_the_first(
    server: CacheServer, tmp_path: Path
) -> None:
    first = Machine(tmp_path / "a", server.url)
    second = Machine(tmp_path / "b", server.url)
    assert first.build(UPPER, COUNT) == ["ran", "ran"]
    assert second.build(UPPER, COUNT) == ["fetched", "fetched"]
    assert (second.root / "build/out.txt").read_text() == "ABC"
    assert second.executor.log("upper:x") == "done\n"
    assert second.build(UPPER, COUNT) == []
    assert first.reported == second.reported == []


def test_requests_go_through_the_proxy_that_the_environment_names(
    server: CacheServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/cache"))
    monkeypatch.delenv("no_proxy", raising=False)
    far = "http://cache.invalid:8080/cache"
    assert Machine(tmp_path / "a", far).build(UPPER) == ["ran"]
    assert all(path.startswith(f"{far}/") for path in server.files)
    assert Machine(tmp_path / "b", far).build(UPPER) == ["fetched"]
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert Machine(tmp_path / "c", server.url).build(UPPER) == ["ran"]


def test_a_fetched_result_is_stored_and_not_fetched_again(
    server: CacheServer, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    second = Machine(tmp_path / "b", server.url)
    second.build(UPPER)
    asked = server.asked.total()
    (second.root / "build/out.txt").unlink()
    assert second.build(UPPER) == ["restored"]
    assert server.asked.total() == asked


def test_blobs_are_uploaded_before_the_result_that_names_them(
    server: CacheServer, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    kinds = [path.split("/")[2] for path in server.order]
    # The result, and the hint of what was built last.
    assert kinds == ["cas"] * (len(kinds) - 2) + ["ac"] * 2
    assert f"/cache/cas/{OUT}" in server.order
    for path, content in server.files.items():
        if "/cas/" in path:
            assert path.endswith(hashlib.sha256(content).hexdigest())


def test_a_read_only_cache_gets_no_uploads(server: CacheServer, tmp_path: Path) -> None:
    assert Machine(tmp_path / "a", server.url, writes=False).build(UPPER) == ["ran"]
    assert server.files == {}
    Machine(tmp_path / "b", server.url).build(UPPER)
    reader = Machine(tmp_path / "c", server.url, writes=False)
    assert reader.build(UPPER) == ["fetched"]


def test_small_blobs_come_with_the_result_and_are_verified_too(
    server: CacheServer, tmp_path: Path
) -> None:
    first = Machine(tmp_path / "a", server.url)
    assert first.build(UPPER) == ["ran"]
    asked = server.asked["GET"]
    assert Machine(tmp_path / "b", server.url).build(UPPER) == ["fetched"]
    assert server.asked["GET"] == asked + 1
    place = f"/cache/ac/{first.key(UPPER).hash}"
    server.files[place] = server.files[place].replace(b"ABC", b"EVI")
    third = Machine(tmp_path / "c", server.url)
    assert third.build(UPPER) == ["ran"]
    assert "is corrupt there; it is discarded and rebuilt" in third.reported[0]
    assert Machine(tmp_path / "d", server.url).build(UPPER) == ["fetched"]


@pytest.mark.usefixtures("blobs_apart")
def test_a_corrupt_blob_is_reported_discarded_rebuilt_and_replaced(
    server: CacheServer, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    server.files[f"/cache/cas/{OUT}"] = b"EVI"
    second = Machine(tmp_path / "b", server.url)
    assert second.build(UPPER) == ["ran"]
    assert (second.root / "build/out.txt").read_text() == "ABC"
    assert second.reported == [
        f"shared cache {server.url}: blob {OUT[:12]} is corrupt there;"
        " it is discarded and rebuilt"
    ]
    assert server.files[f"/cache/cas/{OUT}"] == b"ABC"
    assert Machine(tmp_path / "c", server.url).build(UPPER) == ["fetched"]


def test_a_large_corrupt_blob_is_replaced_although_the_cache_has_it(
    server: CacheServer, tmp_path: Path
) -> None:
    big = Action(
        task="big:x",
        argv=("sh", "-c", "head -c 200000 /dev/zero > out.bin"),
        inputs=(),
        outputs=("out.bin",),
    )
    Machine(tmp_path / "a", server.url).build(big)
    name = f"/cache/cas/{hashlib.sha256(bytes(200_000)).hexdigest()}"
    server.files[name] = b"1" * 200_000
    assert Machine(tmp_path / "b", server.url).build(big) == ["ran"]
    assert server.files[name] == bytes(200_000)


@pytest.mark.parametrize(
    "content", [b"<html>log in first</html>", b"", b"\x12\x05\x0a\x03abc"]
)
def test_an_invalid_result_is_reported_and_replaced(
    server: CacheServer, tmp_path: Path, content: bytes
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    key = next(path for path in server.order if "/ac/" in path)
    right = action_results.decode_result(server.files[key]).outputs
    server.files[key] = content
    second = Machine(tmp_path / "b", server.url)
    assert second.build(UPPER) == ["ran"]
    assert [text.partition(": ")[2][:10] for text in second.reported] == ["the result"]
    assert action_results.decode_result(server.files[key]).outputs == right


@pytest.mark.usefixtures("blobs_apart")
def test_a_result_whose_blob_is_missing_is_rebuilt(
    server: CacheServer, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", server.url).build(UPPER)
    del server.files[f"/cache/cas/{OUT}"]
    second = Machine(tmp_path / "b", server.url)
    assert second.build(UPPER) == ["ran"]
    assert second.reported == []


@pytest.mark.parametrize("limit_bytes", [3, 2])
@pytest.mark.usefixtures("blobs_apart")
def test_a_cache_that_responds_fast_needs_no_thread(
    server: CacheServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit_bytes: int,
) -> None:
    other = replace(UPPER, task="other:x", argv=(*UPPER.argv, "other"), exported_to=())
    unknown = replace(UPPER, task="new:x", argv=(*UPPER.argv, "new"), exported_to=())
    Machine(tmp_path / "a", server.url).build(UPPER, other)
    second = Machine(tmp_path / "b", server.url, writes=False)
    monkeypatch.setattr(executor, "AT_ONCE_BYTES", limit_bytes)
    # Nothing is known of it before its first answer.
    assert not second.executor.restore(UPPER)
    assert second.build(UPPER) == ["fetched"]
    monkeypatch.setattr(shared_cache, "NEAR_S", 0)
    asked = server.asked["GET"]
    assert not second.executor.restore(other)
    assert server.asked["GET"] == asked
    monkeypatch.setattr(shared_cache, "NEAR_S", math.inf)
    assert second.executor.restore(other) == (limit_bytes == 3)
    if limit_bytes == 2:
        second.executor.execute(other)
    assert second.events[-1] == ("other:x", "fetched")
    # Its blob is here already.
    assert server.asked["GET"] == asked + 1
    assert second.build(unknown) == ["ran"]
    assert server.asked["GET"] == asked + 2
    assert second.reported == []


@pytest.mark.parametrize("how", ["token", "user in the address", "netrc"])
def test_a_password_opens_the_cache_and_is_never_shown(
    server: CacheServer, tmp_path: Path, how: str
) -> None:
    address, known = server.url, {}
    server.password = "Basic bWU6czNjcmV0"  # me:s3cret
    if how == "token":
        server.password, known = "Bearer s3cret", {"INGOT_SHARED_CACHE_TOKEN": "s3cret"}
    elif how == "netrc":
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password s3cret\n")
        known = {"NETRC": str(tmp_path / "netrc")}
    else:
        address = server.url.replace("127", "me:s3cret@127", 1)
    first = Machine(tmp_path / "a", address, environment=known)
    assert first.build(UPPER) == ["ran"]
    assert Machine(tmp_path / "b", address, environment=known).build(UPPER) == [
        "fetched"
    ]
    server.fault = "500"
    broken = Machine(tmp_path / "c", address, environment=known)
    assert broken.build(UPPER) == ["ran"]
    shown = "".join(broken.reported) + repr(server.files)
    assert "s3cret" not in shown
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "netrc":
            assert b"s3cret" not in path.read_bytes(), path


def test_a_rejected_password_is_reported_once(
    server: CacheServer, tmp_path: Path
) -> None:
    server.password = "Bearer right"
    known = {"INGOT_SHARED_CACHE_TOKEN": "wrong"}
    machine = Machine(tmp_path / "a", server.url, environment=known)
    assert machine.build(UPPER, COUNT) == ["ran", "ran"]
    assert machine.reported == [
        f"shared cache {server.url}: GET failed with 401 Unauthorized;"
        " the build continues without it"
    ]


@pytest.mark.usefixtures("blobs_apart")
def test_a_folder_is_a_shared_cache(tmp_path: Path) -> None:
    address = f"file://{tmp_path}/shared"
    assert Machine(tmp_path / "a", address).build(UPPER) == ["ran"]
    assert Machine(tmp_path / "b", address).build(UPPER) == ["fetched"]
    (blob,) = (tmp_path / "shared/cas").rglob(OUT)
    blob.write_bytes(b"EVIL")
    third = Machine(tmp_path / "c", address)
    assert third.build(UPPER) == ["ran"]
    assert blob.read_bytes() == b"ABC"
