"""Test that a malicious or faulty shared cache cannot harm its clients."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.cli.why_command import Elsewhere
from ingot.codec import to_json
from ingot.engine import action_results
from ingot.engine import reapi_pb2 as reapi
from ingot.engine.actions import ActionResult, Digest, ResolvedAction
from ingot.engine.cache import build_hints, cache_address
from ingot.engine.cache.backend import Timeouts
from ingot.engine.cache.cache_address import connect
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.remote import local_cluster, worker
from ingot.engine.remote.reapi_worker import worker_action
from ingot.engine.remote.request import WorkRequest, decode_response
from ingot.errors import IngotError
from tests.cache_server import CacheServer, Machine, serving
from tests.execution_server import machine, running_actions
from tests.small_actions import UPPER


@pytest.fixture
def server() -> Iterator[CacheServer]:
    with serving() as running:
        yield running


def tell(server: CacheServer, result: ActionResult) -> None:
    """Let the server have this for the only result that it has."""
    key = next(path for path in server.order if "/ac/" in path)
    server.files[key] = action_results.encode_result(result)


@pytest.mark.parametrize(("of", "size"), [("output", 4), ("output", 5), ("log", 5)])
def test_a_result_cannot_name_a_file_outside_of_the_store(
    server: CacheServer, tmp_path: Path, of: str, size: int
) -> None:
    first = Machine(tmp_path / "a", server.url)
    first.build(UPPER)
    victim = tmp_path / "diary.txt"
    victim.write_text("mine")
    evil = Digest(str(victim), size)
    server.files[f"/cache/cas/{victim}"] = b"EVIL!"[:size]
    made = first.store.action(first.key(UPPER), UPPER.outputs)
    assert made is not None
    if of == "log":
        tell(server, replace(made, log=evil))
    else:
        tell(server, replace(made, outputs=(("out.txt", evil),)))
    second = Machine(tmp_path / "b", server.url)
    assert second.build(UPPER) == ["ran"]
    assert (second.root / "build/out.txt").read_text() == "ABC"
    assert victim.read_text() == "mine"
    assert [text.partition(": ")[2][:10] for text in second.reported] == ["the result"]


def test_a_cache_that_mixes_up_two_actions_changes_no_result(
    server: CacheServer, tmp_path: Path
) -> None:
    other = replace(UPPER, argv=("sh", "-c", "echo EVIL > out.txt"))
    first = Machine(tmp_path / "a", server.url)
    first.build(UPPER)
    first.build(other)
    keys = [f"/cache/ac/{first.key(action).hash}" for action in (UPPER, other)]
    server.files[keys[0]] = server.files[keys[1]]
    second = Machine(tmp_path / "b", server.url)
    assert second.build(UPPER) == ["ran"]
    assert (second.root / "build/out.txt").read_text() == "ABC"
    assert second.reported == [
        f"shared cache {server.url}: the result of action {first.key(UPPER)} is"
        " corrupt there; it is discarded and rebuilt"
    ]
    # The build has repaired the entry.
    assert Machine(tmp_path / "c", server.url).build(UPPER) == ["fetched"]


@pytest.mark.parametrize(
    "hash", ["", "0" * 63, "0" * 65, "A" * 64, "/etc/passwd", f"{'0' * 64}\n", "../x"]
)
def test_an_invalid_digest_is_corrupt(hash: str) -> None:
    with pytest.raises(CorruptMessage, match="not a digest"):
        action_results.checked_digest(hash, 1)


def test_an_action_is_read_from_its_own_messages_and_from_nowhere_else() -> None:
    evil = reapi.Action(command_digest=reapi.Digest(hash="/dev/zero"))
    message = evil.SerializeToString()
    key = hashlib.sha256(message).hexdigest()
    with pytest.raises(CorruptMessage, match="no message /dev/zero"):
        action_results.decode_action(key, [message])
    # Another action than the key's.
    with pytest.raises(CorruptMessage, match=f"no message {'0' * 12}"):
        action_results.decode_action("0" * 64, [message])


def test_a_server_that_runs_actions_names_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "diary.txt"
    victim.write_text("mine")
    evil = reapi.Digest(hash=str(victim), size_bytes=5)
    with running_actions() as running:
        monkeypatch.setattr(running, "keep", lambda _: evil)
        build = machine(tmp_path / "a", running)
        with pytest.raises(IngotError) as caught:
            build.build(UPPER)
    assert victim.read_text() == "mine"
    assert caught.value.message == (
        "upper:x: the worker's response is unusable: not a digest:"
        f" '{str(victim)[:80]}', 5 bytes"
    )


def test_equal_actions_of_two_builds_are_one_action_on_a_server() -> None:
    bound = ResolvedAction(("true",), (), (), ("out",), ())
    requests = [WorkRequest("t:x", bound, (), False, store=name) for name in "ab"]
    again = replace(requests[0], again=True)
    assert len({worker_action(r, ()) for r in (*requests, again)}) == 1


def test_a_failed_action_in_the_cache_is_not_a_result(
    server: CacheServer, tmp_path: Path
) -> None:
    first = Machine(tmp_path / "a", server.url)
    first.build(UPPER)
    key = first.key(UPPER)
    made = first.store.action(key, UPPER.outputs)
    assert made is not None
    failed = replace(made, exit_code=1)
    tell(server, failed)
    assert Machine(tmp_path / "b", server.url).build(UPPER) == ["ran"]
    first.store.put_action(key, failed)
    assert first.store.action(key, UPPER.outputs) is None


def test_a_worker_rejects_a_request_with_an_invalid_digest() -> None:
    bound = ResolvedAction(("true",), (), (("in", Digest("/etc/passwd", 1)),), (), ())
    request = WorkRequest("evil:x", bound, (), exclusive=False)
    response = decode_response(worker.execute(to_json(request)))
    assert response.rejection == "not a digest: '/etc/passwd', 1 bytes"


@pytest.mark.parametrize("token", ["s3cret\n", " s3cret\r\n"])
def test_a_token_may_end_with_its_files_newline(
    server: CacheServer, tmp_path: Path, token: str
) -> None:
    server.password = "Bearer s3cret"
    known = {"INGOT_SHARED_CACHE_TOKEN": token}
    machine = Machine(tmp_path / "a", server.url, environment=known)
    assert machine.build(UPPER) == ["ran"]
    assert machine.reported == []


@pytest.mark.parametrize("scheme", ["http", "grpc"])
@pytest.mark.parametrize("token", ["s3\ncret", "s3cr\u20act", "s3cr\u00e9t", "s3 cret"])
def test_an_invalid_token_is_rejected_and_not_quoted(scheme: str, token: str) -> None:
    known = {"INGOT_SHARED_CACHE_TOKEN": token}
    with pytest.raises(IngotError) as caught:
        connect(f"{scheme}://127.0.0.1:9", known, Timeouts())
    assert str(caught.value) == (
        "INGOT_SHARED_CACHE_TOKEN: not a bearer token; expected printable ASCII"
        " characters without spaces"
    )
    assert caught.value.__context__ is None


def test_a_password_of_any_bytes_can_be_sent(tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine h login me password s3cr\u00e9t\n")
    known = {"NETRC": str(tmp_path / "netrc")}
    assert cache_address.authorization("http://h", known) == "Basic bWU6czNjcsOpdA=="
    odd = "http://me:s3\udcff@h"
    assert cache_address.authorization(odd, {}) == "Basic bWU6czP/"


def test_a_cluster_shows_no_password() -> None:
    text = local_cluster.welcome(2, "127.0.0.1:1", "http://me:s3cret@cache:80/x")
    assert text == (
        "2 workers, with the shared cache http://cache:80/x\n"
        "build there, in another terminal, until Ctrl-C here:\n"
        "  INGOT_SHARED_CACHE=http://cache:80/x INGOT_SHARED_CACHE_MODE=read-write"
        " doit build executor=dask://127.0.0.1:1\n"
        "  with the cache's user and password in INGOT_SHARED_CACHE, or netrc"
    )
    assert "password" not in local_cluster.welcome(2, "127.0.0.1:1", "file:///cache")


def test_workers_of_one_machine_share_its_memory() -> None:
    alone, shared = (local_cluster.here(False, number)["memory"] for number in (1, 4))
    assert shared == alone // 4


def tree(levels: int, names: tuple[str, ...], n_files: int) -> tuple[str, list[bytes]]:
    """Return an action whose folders each name the next one by all of these names."""
    messages: list[bytes] = []

    def add(message: reapi.Command | reapi.Directory | reapi.Action) -> reapi.Digest:
        content: bytes = message.SerializeToString()
        messages.insert(0, content)
        return reapi.Digest(
            hash=hashlib.sha256(content).hexdigest(), size_bytes=len(content)
        )

    folder = reapi.Directory()
    for number in range(n_files):
        folder.files.add(name=str(number), digest=reapi.Digest(hash="0" * 64))
    for _ in range(levels):
        below, folder = add(folder), reapi.Directory()
        for name in names:
            folder.directories.add(name=name, digest=below)
    command = add(reapi.Command(arguments=["true"]))
    action = reapi.Action(command_digest=command, input_root_digest=add(folder))
    return add(action).hash, messages


@pytest.mark.parametrize(
    ("levels", "names", "n_files"),
    [(60, ("l", "r"), 1), (1, ("x" * 1_000_000,), 10_000), (1, ("",) * 10_000, 1000)],
)
def test_a_small_hint_of_a_huge_tree_is_dropped_at_once(
    server: CacheServer,
    tmp_path: Path,
    levels: int,
    names: tuple[str, ...],
    n_files: int,
) -> None:
    key, messages = tree(levels, names, n_files)
    with pytest.raises(CorruptMessage, match="its inputs take more than 8388608 bytes"):
        action_results.decode_action(key, messages)
    hint = build_hints.BuildHint(tuple(messages), time.time() + 3600)
    place = build_hints.hint_key("", "upper:x")
    server.files[f"/cache/ac/{place.hash}"] = build_hints.encode_hint("upper:x", hint)
    here = Machine(tmp_path / "a", server.url)
    elsewhere = Elsewhere(here.executor, lambda: here.shared)
    start = time.monotonic()
    assert elsewhere.differences(UPPER, here.executor.resolve(UPPER)) == []
    assert time.monotonic() - start < 10


def test_the_inputs_of_a_large_action_are_read() -> None:
    key, messages = tree(2, ("a", "b"), 5000)
    assert len(action_results.decode_action(key, messages).inputs) == 20_000
