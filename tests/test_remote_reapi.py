"""Test that a remote-execution server builds the same bytes under the same keys."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import reapi_pb2 as reapi
from ingot.engine import toolchain
from ingot.engine.actions import InlineText
from ingot.engine.cache import services_pb2 as api
from ingot.engine.remote import reapi_execution
from ingot.engine.run_action import ActionFailed
from tests.cache_server import Machine
from tests.dask_cluster import processes, shell, until
from tests.execution_server import (
    ExecutionServer,
    machine,
    refused,
    running_actions,
)
from tests.reapi_server import listening
from tests.small_actions import COUNT, OUT, UPPER

HERE = "\n  run it on this machine: the same command without executor="


@pytest.fixture
def server() -> Iterator[ExecutionServer]:
    with running_actions() as running:
        yield running


def test_a_server_builds_the_same_bytes_under_the_same_key(
    server: ExecutionServer, tmp_path: Path
) -> None:
    far, near = machine(tmp_path / "far", server), Machine(tmp_path / "near")
    assert far.build(UPPER, COUNT) == near.build(UPPER, COUNT) == ["ran", "ran"]
    assert (far.root / "build/out.txt").read_text() == "ABC"
    assert far.executor.log("upper:x") == "done\n"
    for task in ("upper:x", "count:x"):
        records = [each.executor.records.get(task) for each in (far, near)]
        assert records[0] is not None
        assert records[1] is not None
        assert records[0].key == records[1].key
        assert records[0].outputs == records[1].outputs
        assert records[0].key in server.results
    # Another build finds it there, whatever runs its actions.
    assert Machine(tmp_path / "b", server.address).build(UPPER) == ["fetched"]
    assert server.asked["Execute"] == 2
    assert far.reported == near.reported == []


def test_labels_and_properties_of_the_address_select_the_worker(
    server: ExecutionServer, tmp_path: Path
) -> None:
    made = machine(tmp_path / "a", server, "?OSFamily=linux&container-image=x%2Fy")
    made.build(replace(UPPER, exclusive=True))
    assert server.properties == [
        {"OSFamily": "linux", "bench": "1", "container-image": "x/y"}
    ]


def test_a_stopped_build_leaves_nothing_running_on_the_server(
    server: ExecutionServer, tmp_path: Path
) -> None:
    made = machine(tmp_path / "a", server)
    action = shell("long:x", f"sleep 30.{os.getpid()}; echo done > out")
    # The command itself, not those that start it: they are armed by then.
    mark = f"sleep\x0030.{os.getpid()}"
    ends: list[str] = []
    thread = threading.Thread(target=lambda: ends.append(refused(made, action)))
    thread.start()
    until(lambda: processes(mark))
    made.executor._remote.close()  # type: ignore[union-attr]
    thread.join(3)
    until(lambda: not processes(mark), 5)
    assert ends == ["stopped"]


def test_a_remote_failure_is_reported_like_a_local_one_and_not_cached(
    server: ExecutionServer, tmp_path: Path
) -> None:
    made = machine(tmp_path / "a", server)
    action = shell("fail:x", "echo the reason; exit 7")
    for asked in (1, 3):
        with pytest.raises(ActionFailed) as caught:
            made.build(action)
        text = str(caught.value)
        assert text.startswith("fail:x: sh failed with exit code 7\nthe reason\n")
        # The server keeps failures; the second time it is made to run it again.
        assert server.asked["Execute"] == asked
    again = text.rpartition("run again: ")[2]
    assert os.waitstatus_to_exitcode(os.system(f"({again}) > /dev/null")) == 7
    with pytest.raises(ActionFailed, match="did not write out"):
        made.build(shell("fail:y", ":"))


def test_a_result_that_the_server_has_lost_is_rebuilt(
    server: ExecutionServer, tmp_path: Path
) -> None:
    machine(tmp_path / "a", server).build(UPPER)
    del server.blobs[OUT]
    assert machine(tmp_path / "b", server).build(UPPER) == ["ran"]
    assert server.blobs[OUT] == b"ABC"


def test_a_corrupt_output_is_rejected_and_rebuilt(
    server: ExecutionServer, tmp_path: Path
) -> None:
    machine(tmp_path / "a", server).build(UPPER)
    server.blobs[OUT] = b"EVI"
    second = machine(tmp_path / "b", server)
    assert second.build(UPPER) == ["ran"]
    assert (second.root / "build/out.txt").read_text() == "ABC"
    assert "is corrupt there; it is discarded and rebuilt" in second.reported[0]


@pytest.mark.parametrize("fault", ["", "names nothing"])
@pytest.mark.parametrize("lost", ["input", "message"])
def test_inputs_that_the_server_lost_are_uploaded_again(
    server: ExecutionServer, tmp_path: Path, lost: str, fault: str
) -> None:
    server.fault = fault
    content = b"only this test has it"
    action = replace(UPPER, inputs=(("in.txt", InlineText(content.decode())),))
    made = machine(tmp_path / "a", server)
    if lost == "input":
        server.loses = [hashlib.sha256(content).hexdigest()]
    else:
        made.build(UPPER)
        server.loses = [
            name
            for name, blob in server.blobs.items()
            if b"out/out.txt" in blob and b"ingot.engine.remote.reapi_worker" in blob
        ]
        assert len(server.loses) == 1
    assert made.build(action) == ["ran"]
    assert (made.root / "build/out.txt").read_text() == content.decode().upper()


@pytest.mark.parametrize(
    ("fault", "asked"),
    [
        ("breaks off", {"Execute": 1, "WaitExecution": 1}),
        ("forgets", {"Execute": 2, "WaitExecution": 1}),
    ],
)
def test_an_operation_is_followed_over_a_lost_connection(
    server: ExecutionServer, tmp_path: Path, fault: str, asked: dict[str, int]
) -> None:
    made = machine(tmp_path / "a", server)
    server.fault = fault
    assert made.build(UPPER) == ["ran"]
    assert server.asked == asked
    assert made.reported == [
        f"executor {server.address}: the connection to the server is lost;"
        " waiting for it"
    ]


def test_a_server_that_comes_back_with_nothing_ends_the_build(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-back"
    first, second = ExecutionServer(), ExecutionServer()
    with listening(first):
        made = machine(tmp_path / "a", first)
        action = shell("long:x", f": {mark}; sleep 1; echo done > out")
        thread = threading.Thread(target=made.build, args=(UPPER, action, COUNT))
        thread.start()
        until(lambda: processes(mark))
    second.port = first.port
    with listening(second):
        thread.join(60)
    done = [("upper:x", "ran"), ("long:x", "ran"), ("count:x", "ran")]
    assert made.events == done
    assert (made.root / "build/count.txt").read_text().strip() == "3"
    lost = f"executor {first.address}: the connection to the server is lost;"
    lost += " waiting for it"
    assert made.reported.count(lost) == 1


def test_a_server_that_goes_away_for_good_is_reported(tmp_path: Path) -> None:
    server = ExecutionServer()
    server.fault = "takes none"
    ends: list[str] = []
    with listening(server):
        made = machine(tmp_path / "a", server, return_s=0.3)
        thread = threading.Thread(target=lambda: ends.append(refused(made)))
        thread.start()
        until(lambda: server.properties)
    thread.join(20)
    assert ends == [
        f"upper:x: {server.address}: the server no longer responds\n"
        "  run the same command again once it does; finished actions are cached"
    ]


def test_a_server_that_stays_away_is_reported(tmp_path: Path) -> None:
    server = ExecutionServer()
    with listening(server):
        made = machine(tmp_path / "a", server, return_s=0.3)
    assert refused(made) == (
        f"upper:x: shared cache {server.address}: no connection\n"
        "  workers get inputs from it: fix it, or run without executor="
    )


ENDS = {
    "its workers die": "started it 4 times without a result; the last time: ABORTED:"
    f" the worker died{HERE}",
    "time limit": "stopped it at the server's time limit\n"
    "  raise that limit, or run it on this machine: the same command without executor=",
    "refuses": f"rejected it: INVALID_ARGUMENT: no queue for it{HERE}",
}


@pytest.mark.parametrize("fault", ENDS)
def test_an_operation_that_ends_without_a_result_is_reported(
    server: ExecutionServer,
    tmp_path: Path,
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reapi_execution, "PAUSE_S", 0.001)
    made = machine(tmp_path / "a", server)
    server.fault = fault
    assert refused(made) == f"upper:x: {server.address} {ENDS[fault]}"
    assert server.asked["Execute"] == (4 if "workers" in fault else 1)


def test_a_worker_with_other_tools_rejects_a_request(
    server: ExecutionServer, tmp_path: Path
) -> None:
    made = machine(tmp_path / "a", server)
    text = refused(made, replace(UPPER, platform=(("cpu", "another processor"),)))
    assert text.startswith("upper:x: worker ")
    assert " rejected it: its cpu is '" in text
    assert "expected 'another processor'\n  start workers from the same" in text


def test_a_worker_without_this_environment_is_an_error_that_states_what_it_lacks(
    server: ExecutionServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "executable", lambda name: f"/nowhere/{name}")
    text = refused(machine(tmp_path / "a", server))
    assert text.startswith(
        f"upper:x: {server.address}: ingot does not start on its worker, exit code 127"
        "\n[Errno 2] No such file or directory: '/nowhere/python'\n"
        "  workers need this environment at the same path: "
    )


def test_a_server_that_rejects_results_of_clients_still_runs_actions(
    server: ExecutionServer, tmp_path: Path
) -> None:
    server.fault = "keeps no results"
    made = machine(tmp_path / "a", server)
    assert made.build(UPPER, COUNT) == ["ran", "ran"]
    # Results and word of them are sent by different threads.
    assert sorted(made.reported) == [
        f"executor {server.address}: cannot share results with others: access denied",
        f"shared cache {server.address}: access denied; `doit why` elsewhere will"
        " not know of this build",
    ]


def test_the_bytes_of_an_operation_are_those_of_the_published_protocol() -> None:
    # Operation: name = 1, done = 3, response = 5 {value = 2}; ExecuteResponse:
    # result = 1 {exit_code = 4}, cached_result = 2, status = 3 {code = 1}.
    answer = b"\x0a\x02\x20\x07\x10\x01\x1a\x02\x08\x09"
    told = b"\x0a\x01o\x18\x01\x2a\x0c\x12\x0a" + answer
    ended = reapi_execution._ended(api.Operation.FromString(told))
    assert ended == reapi_execution.OperationEnd(
        code="FAILED_PRECONDITION",
        result=reapi.ActionResult(exit_code=7),
        cached=True,
    )
