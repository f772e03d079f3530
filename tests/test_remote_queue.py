"""Test actions that wait in the queue of a remote-execution server."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine.remote import reapi_execution
from tests.dask_cluster import until
from tests.execution_server import machine, refused, running_actions
from tests.small_actions import UPPER


@pytest.mark.parametrize(
    ("query", "exclusive", "who"),
    [
        ("", True, "no worker labelled 'bench'"),
        ("?OSFamily=plan9", True, "no worker labelled 'bench' with OSFamily=plan9"),
        ("?OSFamily=plan9&ISA=6502", False, "no worker with OSFamily=plan9, ISA=6502"),
        ("", False, "no worker"),
    ],
)
def test_an_action_that_no_worker_takes_waits_and_reports_it_until_it_is_stopped(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    query: str,
    exclusive: bool,
    who: str,
) -> None:
    monkeypatch.setattr(reapi_execution, "QUEUED_S", 0.05)
    with running_actions() as server:
        server.fault = "takes none"
        made = machine(tmp_path / "a", server, query)
        ends: list[str] = []
        action = replace(UPPER, exclusive=exclusive)
        thread = threading.Thread(target=lambda: ends.append(refused(made, action)))
        thread.start()
        until(lambda: made.reported)
        made.executor._remote.close()  # type: ignore[union-attr]
        thread.join(3)
        assert made.reported == [
            f"executor {server.address}: {who} has taken upper:x yet; it waits"
        ]
        assert ends == ["stopped"]
        assert server.cancelled == ["operation-0"]
