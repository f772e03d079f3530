"""Test that a benchmark has the machine alone, and none overtakes it while it waits."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ingot.engine.actions import Action
from ingot.engine.executor import Executor
from ingot.engine.store import Store

WAIT_S = 30


def in_thread(work: object) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
    thread.start()
    return thread


def test_a_later_action_does_not_overtake_one_that_wants_the_machine_alone(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path, warn=pytest.fail)
    order: list[str] = []
    waits = threading.Event()

    def alone() -> None:
        with store.machine_lock(exclusive=True, on_wait=waits.set):
            order.append("alone")

    def later() -> None:
        with store.machine_lock(exclusive=False):
            order.append("later")

    with store.machine_lock(exclusive=False):
        first = in_thread(alone)
        assert waits.wait(WAIT_S)
        second = in_thread(later)
        # It could have the machine with us, were nobody before it.
        second.join(0.2)
        assert order == []
    first.join(WAIT_S)
    second.join(WAIT_S)
    assert order == ["alone", "later"]


def test_actions_that_share_the_machine_do_not_wait_for_each_other(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path, warn=pytest.fail)
    with (
        store.machine_lock(exclusive=False),
        store.machine_lock(exclusive=False, on_wait=pytest.fail),
    ):
        pass


def test_a_benchmark_that_waits_reports_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "store", warn=pytest.fail)
    executor = Executor(tmp_path, store, lambda *_: None)
    bench = Action(
        task="bench:toy@here",
        argv=("sh", "-c", "echo 1 > bench.json"),
        inputs=(),
        outputs=("bench.json",),
        exclusive=True,
    )
    said = ""
    with store.machine_lock(exclusive=False):
        build = in_thread(lambda: executor.execute(bench))
        for _ in range(WAIT_S * 100):
            said += capfd.readouterr().err
            if said or not build.is_alive():
                break
            build.join(0.01)
    build.join(WAIT_S)
    assert said == (
        "bench:toy@here: waiting until no other build runs an action here\n"
    )
    assert executor.is_up_to_date(bench)
