"""Test that Dask's workers build the same bytes as this machine, whatever dies."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, Future

from ingot.engine.action_keys import encode_action
from ingot.engine.actions import Action, Digest, ResolvedAction, SourceFile
from ingot.engine.remote import dask_client
from ingot.engine.remote.request import LABELS, WorkRequest
from ingot.engine.run_action import ActionFailed
from ingot.errors import IngotError
from tests.cache_server import Machine
from tests.dask_cluster import (
    DaskCluster,
    dask_cluster,
    parent,
    poison,
    processes,
    shell,
    until,
)
from tests.small_actions import COUNT, UPPER


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    """Two workers, for the tests that do them no harm that lasts."""
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


UPPER_RESOLVED = ResolvedAction(UPPER.argv, (), (), UPPER.outputs, ())


def started(machine: Machine, *actions: Action) -> threading.Thread:
    """Build in a thread; what it ends with is in `machine.events`."""
    thread = threading.Thread(target=machine.build, args=actions)
    thread.start()
    return thread


def worker_of(pid: int) -> int:
    """The Dask worker that a command runs under: bwrap's parent, or the command's."""
    while "python" not in os.readlink(f"/proc/{parent(pid)}/exe"):
        pid = parent(pid)
    return parent(pid)


def test_workers_build_the_same_bytes_as_this_machine(
    running: DaskCluster, tmp_path: Path
) -> None:
    machine = running.machine(tmp_path / "a")
    assert machine.build(UPPER, COUNT) == ["ran", "ran"]
    assert (machine.root / "build/out.txt").read_text() == "ABC"
    assert machine.executor.log("upper:x") == "done\n"
    alone = Machine(tmp_path / "b")
    alone.build(UPPER, COUNT)
    results = [each.executor.records.get("count:x") for each in (machine, alone)]
    assert results[0] is not None
    assert results[1] is not None
    assert results[0].outputs == results[1].outputs
    # No data came back but through the shared cache, where everybody finds it.
    assert Machine(tmp_path / "c", running.shared_cache).build(UPPER) == ["fetched"]


def test_only_messages_for_users_are_printed(
    running: DaskCluster, tmp_path: Path
) -> None:
    running.machine(tmp_path / "a")
    assert not logging.getLogger("distributed.client").isEnabledFor(logging.CRITICAL)


def test_a_remote_failure_is_reported_like_a_local_one(
    running: DaskCluster, tmp_path: Path
) -> None:
    machine = running.machine(tmp_path / "a")
    with pytest.raises(ActionFailed) as caught:
        machine.build(shell("fail:x", "echo the reason; exit 7"))
    text = str(caught.value)
    assert text.startswith("fail:x: sh failed with exit code 7\nthe reason\n")
    again = text.rpartition("run again: ")[2]
    assert os.waitstatus_to_exitcode(os.system(f"({again}) > /dev/null")) == 7
    with pytest.raises(ActionFailed, match="did not write out"):
        machine.build(shell("fail:y", ":"))


def test_a_corrupt_input_in_the_shared_cache_is_uploaded_again(
    running: DaskCluster, tmp_path: Path
) -> None:
    machine = running.machine(tmp_path / "a")
    content = b"only this test has it" * 10_000
    (tmp_path / "in.txt").write_bytes(content)
    name = hashlib.sha256(content).hexdigest()
    place = Path(running.shared_cache.removeprefix("file://")) / "cas" / name[:2]
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_bytes(b"damaged")
    action = replace(
        shell("copy:x", "cat in.txt > out"),
        inputs=(("in.txt", SourceFile(tmp_path / "in.txt")),),
    )
    assert machine.build(action) == ["ran"]
    assert (machine.root / "build/copy-x").read_bytes() == content
    assert (place / name).read_bytes() == content


def test_a_repeated_request_gets_no_old_response(
    running: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Future[str]] = []
    send = Client.map

    def keeping(client: Client, *args: Any, **words: Any) -> list[Future[str]]:
        found = send(client, *args, **words)
        kept.extend(found)
        return found

    monkeypatch.setattr(Client, "map", keeping)
    machine = running.machine(tmp_path / "a")
    (tmp_path / "in.txt").write_bytes(b"nobody else has this")
    source = SourceFile(tmp_path / "in.txt")
    action = replace(shell("once:x", "cat in.txt > out"), inputs=(("in.txt", source),))
    assert machine.shared is not None
    # What the machine takes to be there already, and is not.
    machine.shared._present.add(machine.store.digests.of_file(source.path))
    assert machine.build(action) == ["ran"]
    assert len(kept) == 2


def test_a_worker_killed_mid_action_takes_its_children_and_nothing_else(
    running: DaskCluster, tmp_path: Path
) -> None:
    machine = running.machine(tmp_path / "a")
    mark = f"mark-{os.getpid()}-killed"
    thread = started(machine, shell("long:x", f": {mark}; sleep 2; echo done > out"))
    until(lambda: processes(mark))
    before = processes(mark)
    os.kill(worker_of(before[0]), signal.SIGKILL)
    until(lambda: not set(before) & set(processes(mark)))
    thread.join(60)
    assert machine.events == [("long:x", "ran")]
    assert (machine.root / "build/long-x").read_text() == "done\n"


def test_a_benchmark_runs_alone_and_only_on_a_labelled_worker(
    running: DaskCluster, tmp_path: Path
) -> None:
    clock = "date +%s%N > out; sleep 0.7; date +%s%N >> out"
    benches = [
        shell(f"bench:{name}", f": {os.getpid()}{name}; {clock}", exclusive=True)
        for name in "ab"
    ]
    others = [shell(f"o:{n}", f": {os.getpid()}{n}; {clock}") for n in range(3)]
    machines = [
        running.machine(tmp_path / str(number))
        for number in range(len(benches) + len(others))
    ]
    threads = [
        started(machine, action)
        for machine, action in zip(machines, [*benches, *others], strict=True)
    ]
    for thread in threads:
        thread.join(60)
    spans = [
        [int(word) for word in next((m.root / "build").glob("*-*")).read_text().split()]
        for m in machines
    ]
    for bench in spans[:2]:
        for other in spans:
            if other is not bench:
                assert other[1] <= bench[0] or other[0] >= bench[1]


def test_a_request_waits_and_reports_it_if_no_worker_has_its_label(
    running: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(LABELS, "gpu-driver", "gpu")
    machine = running.machine(tmp_path / "a")
    remote = machine.executor._remote
    assert remote is not None
    workers = remote._workers
    assert isinstance(workers, dask_client.DaskWorkers)
    workers._last_known = (-dask_client.REFRESH_S, [])
    huge = replace(UPPER_RESOLVED, inputs=(("in", Digest("0" * 64, 1 << 60)),))
    request = WorkRequest("check:x@gpu", huge, ("gpu-driver",), False)
    wanted = workers._resources(request)
    assert wanted["gpu"] == dask_client.LABEL_SHARE
    # Capped at what the largest worker has: otherwise it would wait forever.
    assert wanted["memory"] < 1 << 60
    assert machine.reported == [
        f"executor {running.address}: no worker has the label 'gpu' yet;"
        " check:x@gpu waits"
    ]


def test_a_stopped_build_does_not_wait_for_workers(
    running: DaskCluster, tmp_path: Path
) -> None:
    machine = running.machine(tmp_path / "a")
    mark = f"mark-{os.getpid()}-stopped"
    action = shell("long:x", f": {mark}; sleep 4; echo done > out")
    ends: list[Exception] = []

    def build() -> None:
        try:
            machine.build(action)
        except IngotError as error:
            ends.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    until(lambda: processes(mark))
    machine.executor._remote._workers.close()  # type: ignore[union-attr]
    thread.join(3)
    assert [str(error) for error in ends] == ["stopped"]
    # What was under way ends there, and is a hit for whoever asks next.
    name = encode_action(machine.executor.resolve(action)).key.hash
    place = Path(running.shared_cache.removeprefix("file://")) / "ac"
    until(lambda: (place / name[:2] / name).exists())
    assert running.machine(tmp_path / "b").build(action) == ["fetched"]


def test_a_worker_with_other_tools_rejects_a_request(
    running: DaskCluster, tmp_path: Path
) -> None:
    machine = running.machine(tmp_path / "a")
    action = replace(UPPER, platform=(("cpu", "another processor"),))
    with pytest.raises(IngotError) as caught:
        machine.build(action)
    text = str(caught.value)
    assert re.match(r"upper:x: worker \S+, process \d+ rejected it: its cpu is '", text)
    assert "expected 'another processor'\n  start workers from the same" in text


def test_a_poison_action_stops_after_a_few_tries_and_names_itself(
    running: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dask_client, "execute", poison)
    machine = running.machine(tmp_path / "a")
    action = shell("poison:x", f": {os.getpid()}")
    with pytest.raises(IngotError, match=r"^poison:x: 4 workers died running it;"):
        machine.build(action)


def test_a_lost_scheduler_that_comes_back_ends_the_build_with_the_same_bytes(
    tmp_path: Path,
) -> None:
    mark = f"mark-{os.getpid()}-lost"
    action = shell("long:x", f": {mark}; sleep 3; echo done > out")
    with dask_cluster(tmp_path / "cluster", n_workers=1) as first:
        machine = first.machine(tmp_path / "a")
        thread = started(machine, UPPER, action, COUNT)
        until(lambda: processes(mark))
        # Scheduler, nanny and worker: as when the machine loses power.
        os.killpg(first.process.pid, signal.SIGKILL)
        until(lambda: not processes(mark))
    port = int(first.address.rpartition(":")[2])
    with dask_cluster(tmp_path / "cluster", n_workers=1, port=port):
        thread.join(90)
    done = [("upper:x", "ran"), ("long:x", "ran"), ("count:x", "ran")]
    assert machine.events == done
    assert (machine.root / "build/long-x").read_text() == "done\n"
    assert (machine.root / "build/count.txt").read_text().strip() == "3"
    assert any("to the scheduler is lost" in text for text in machine.reported)


def test_a_build_waits_only_once_for_a_lost_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks = [f"mark-{os.getpid()}-away{place}" for place in range(4)]
    ends: list[str] = []
    tried: list[float] = []
    with dask_cluster(tmp_path / "cluster", n_workers=1) as first:
        machine = first.machine(tmp_path / "a")

        def build(mark: str) -> None:
            with pytest.raises(IngotError) as caught:
                machine.build(shell(f"{mark}:x", f": {mark}; sleep 30"))
            ends.append(str(caught.value))

        threads = [threading.Thread(target=build, args=(mark,)) for mark in marks]
        for thread in threads:
            thread.start()
        until(lambda: any(processes(mark) for mark in marks))
        connect = dask_client.DaskWorkers._connect

        def counting(self: dask_client.DaskWorkers, timeout_s: float) -> Any:
            tried.append(timeout_s)
            return connect(self, timeout_s)

        monkeypatch.setattr(dask_client.DaskWorkers, "_connect", counting)
        monkeypatch.setattr(dask_client, "RETURN_S", 0.0)
        os.killpg(first.process.pid, signal.SIGKILL)
        for thread in threads:
            thread.join(60)
    assert len(tried) == 1
    assert len(ends) == len(threads)
    assert {text.partition("\n")[0] for text in ends} == {
        f"executor={first.address}: no scheduler responds there"
    }
