"""Test how a worker in this process handles a cache, a store and a disk that fail."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ingot.codec import to_json
from ingot.engine.actions import Action, Digest, ResolvedAction
from ingot.engine.cache import shared_cache
from ingot.engine.gc import collect_garbage
from ingot.engine.remote import dask_client, worker
from ingot.engine.remote.remote_executor import RemoteExecutor
from ingot.engine.remote.request import (
    VERSION,
    WorkRequest,
    WorkResponse,
    decode_response,
)
from ingot.engine.store import Store
from ingot.errors import IngotError
from tests.cache_server import CacheServer, Machine, serving
from tests.small_actions import OUT, UPPER

BIG = Action(
    task="big:x",
    argv=("sh", "-c", "head -c 200000 /dev/zero > out.bin"),
    inputs=(),
    outputs=("out.bin",),
)


class Here:
    """A scheduler whose only worker is this process."""

    def run(self, request: WorkRequest, name: str) -> WorkResponse:
        return decode_response(worker.execute(to_json(request)))


@dataclass
class Site:
    """A cache server, and where machines and the worker have their folders."""

    server: CacheServer
    root: Path

    def machine(self, name: str) -> Machine:
        """Return a machine that has its actions run by the worker."""
        machine = Machine(self.root / name, self.server.url)
        assert machine.shared is not None
        machine.executor._remote = RemoteExecutor(
            Here(),  # type: ignore[arg-type]
            machine.shared,
            machine.store,
        )
        return machine

    def forget(self, kind: str) -> None:
        """Let the server lose all results, or all blobs."""
        for name in [name for name in self.server.files if f"/{kind}/" in name]:
            del self.server.files[name]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with serving() as server:
        monkeypatch.setenv("INGOT_CACHE", str(tmp_path / "worker"))
        monkeypatch.setenv("INGOT_SHARED_CACHE", server.url)
        monkeypatch.delenv("INGOT_CACHE_LIMIT", raising=False)
        monkeypatch.setattr(worker, "_worker", functools.cache(worker.Worker))
        yield Site(server, tmp_path)


def test_a_worker_with_the_builds_own_store_rejects_requests(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site.root / "alias").symlink_to(site.root / "a/store")
    monkeypatch.setenv("INGOT_CACHE", str(site.root / "alias"))
    machine, ends = site.machine("a"), []

    def build() -> None:
        try:
            machine.build(UPPER)
        except IngotError as error:
            ends.append(str(error))

    thread = threading.Thread(target=build, daemon=True)
    thread.start()
    thread.join(20)
    (text,) = ends
    who, _, rest = text.partition(" rejected it: ")
    assert who.startswith("upper:x: worker ")
    assert rest == (
        f"its store, {site.root}/alias, is that of the build\n"
        "  set INGOT_CACHE of the workers to another folder"
    )


def test_a_copied_store_has_another_identity(tmp_path: Path) -> None:
    store = Store(tmp_path / "a", print)
    assert store.identity() == store.identity() == Store(store.root, print).identity()
    shutil.copytree(store.root, tmp_path / "b")
    assert Store(tmp_path / "b", print).identity() != store.identity()


@pytest.mark.parametrize("action", [UPPER, BIG], ids=["small", "large"])
def test_inputs_that_the_cache_has_lost_are_uploaded_again(
    site: Site, action: Action
) -> None:
    assert site.machine("a").build(action) == ["ran"]
    site.forget("ac")
    site.forget("cas")
    assert site.machine("b").build(action) == ["ran"]


def test_corrupt_inputs_in_the_cache_are_uploaded_again(site: Site) -> None:
    first = site.machine("a")
    assert first.build(BIG) == ["ran"]
    (name,) = (n for n, content in site.server.files.items() if len(content) == 200_000)
    site.forget("ac")
    site.server.files[name] = b"1" * 200_000
    assert site.machine("b").build(BIG) == ["ran"]
    assert site.server.files[name] == bytes(200_000)


def test_one_failed_request_does_not_end_a_distributed_build(site: Site) -> None:
    machine = site.machine("a")
    assert machine.shared is not None
    site.server.fault = "500"
    assert machine.shared.fetch(machine.key(UPPER), UPPER.outputs) is None
    site.server.fault = ""
    assert machine.build(UPPER) == ["ran"]
    assert len(machine.reported) == 1


def test_a_worker_continues_after_many_corrupt_blobs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_cache, "N_CORRUPT", 0)
    machine = site.machine("a")
    machine.build(BIG)
    shared = worker._open_worker().shared
    site.server.files[f"/cache/cas/{OUT}"] = b"EVI"
    assert not shared.ensure_local(Digest(OUT, 3))
    assert machine.build(UPPER) == ["ran"]


@pytest.mark.usefixtures("blobs_apart")
def test_a_repeated_message_counts_no_corrupt_blob(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_cache, "N_CORRUPT", 1)
    machine = site.machine("a")
    machine.build(UPPER)
    shared = Machine(site.root / "b", site.server.url).shared
    assert shared is not None
    for number in range(5):
        shared._health.warn_once(f"message {number}")
    site.server.files[f"/cache/cas/{OUT}"] = b"EVI"
    assert shared.fetch(machine.key(UPPER), UPPER.outputs) is None
    assert shared._health.reads


def test_a_worker_limits_its_store_between_requests(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "COLLECT_S", 0.0)
    monkeypatch.setenv("INGOT_CACHE_LIMIT", "100 kB")
    machine = site.machine("a")
    assert machine.build(BIG, UPPER) == ["ran", "ran"]
    kept = Store(site.root / "worker", print)
    assert kept.holds(Digest(OUT, 3))
    sizes = [path.stat().st_size for path in (kept.root / "cas").rglob("*")]
    assert 200_000 not in sizes
    monkeypatch.setenv("INGOT_CACHE_LIMIT", "much")
    site.forget("ac")
    with pytest.raises(IngotError, match="INGOT_CACHE_LIMIT: expected a size, found"):
        site.machine("b").build(UPPER)


def test_a_request_leases_its_blobs_until_it_ends(tmp_path: Path) -> None:
    store, lasting = Store(tmp_path, print), []
    lasting.append(store.put_bytes(b"lasting"))

    def left() -> list[bool]:
        collect_garbage(tmp_path, 0, grace_s=0.0)
        return [store.holds(digest) for digest in lasting]

    with store.lease_scope():
        lasting.append(store.put_bytes(b"meanwhile"))
        assert left() == [True, True]
        thread = threading.Thread(target=use_a_moment, args=(store, lasting[1]))
        thread.start()
        thread.join()
        # Another thread has let go of it: this one has not.
        assert left() == [True, True]
    assert left() == [True, False]


def use_a_moment(store: Store, digest: Digest) -> None:
    with store.lease_scope():
        store.lease(digest)


def test_a_full_disk_of_a_worker_is_reported_with_a_remedy(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> WorkResponse:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(worker, "_execute", full)
    with pytest.raises(IngotError) as caught:
        site.machine("a").build(UPPER)
    assert str(caught.value).partition(" rejected it: ")[2] == (
        "[Errno 28] No space left on device\n"
        "  free space on the worker's disk, or fix its permissions"
    )


@pytest.mark.parametrize(
    "address",
    ["dask://", "dask://host", "dask://h:x", "dask://h:99999", "dask://a:1/b"],
)
def test_a_wrong_address_is_rejected(address: str) -> None:
    with pytest.raises(IngotError) as caught:
        dask_client.DaskWorkers(address, print)
    assert str(caught.value) == (
        f"executor={address}: not a scheduler's address\n"
        "  expected dask://HOST:PORT, such as dask://127.0.0.1:8786"
    )


def test_tls_without_certificates_is_an_error_that_names_their_setting() -> None:
    with pytest.raises(IngotError) as caught:
        dask_client.DaskWorkers("dask+tls://127.0.0.1:9", print)
    assert str(caught.value).startswith(
        "executor=dask+tls://127.0.0.1:9: cannot connect: TLS expects"
    )
    assert caught.value.hint.endswith("distributed.comm.tls")


class Future:
    """What a scheduler gives; it is over, in this way."""

    status = "error"

    def __init__(self, ends: Exception) -> None:
        self._ends = ends

    def result(self) -> str:
        raise self._ends


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (KeyError("tools"), "x:y: its worker failed: KeyError: 'tools'"),
        (OSError("no disk"), "x:y: its worker failed: OSError: no disk"),
    ],
)
def test_any_exception_of_a_worker_is_an_error_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, ends: Exception, told: str
) -> None:
    monkeypatch.setattr(dask_client.DaskWorkers, "_connect", lambda *_: Client(ends))
    request = WorkRequest("x:y", ResolvedAction((), (), (), (), ()), (), False)
    with pytest.raises(IngotError) as caught:
        dask_client.DaskWorkers("dask://h:1", print).run(request, "key")
    assert caught.value.message == told


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "the response is from another version of ingot"),
        ('{"result": 1}', "the response is from another version of ingot"),
        ("<html>", "it is not JSON: "),
        ("[]", "it is not a mapping"),
        (f'{{"version": {VERSION}}}', "expected the fields of WorkResponse;"),
    ],
)
def test_an_unusable_response_is_reported(
    site: Site, monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setattr(worker, "execute", lambda _: text)
    with pytest.raises(IngotError) as caught:
        site.machine("a").build(UPPER)
    expected = f"upper:x: the worker's response is unusable: {reason}"
    assert caught.value.message.startswith(expected)


@dataclass
class Client:
    """A connection to a scheduler that has no workers."""

    ends: Exception

    def scheduler_info(self, n_workers: int) -> dict[str, dict[str, object]]:
        return {"workers": {}}

    def map(self, _: object, texts: list[str], **__: object) -> list[Future]:
        return [Future(self.ends) for _ in texts]
