"""Test that the scheduler runs every job once, after those that it needs."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable

import pytest

from ingot.cli.scheduler import Failures, Job, Scheduler, needed
from ingot.errors import IngotError


class Observed:
    """Hears how jobs end."""

    def __init__(self) -> None:
        self.ends: dict[str, str] = {}

    def started(self, name: str) -> None:
        """Nothing is asked of it."""

    def up_to_date(self, name: str) -> None:
        self.ends[name] = "up to date"

    def succeeded(self, name: str) -> None:
        self.ends[name] = "succeeded"

    def failed(self, name: str, text: str) -> None:
        self.ends[name] = f"failed: {text}"

    def not_tried(self, name: str) -> None:
        self.ends[name] = "not tried"


def run(
    jobs: Iterable[Job], threads: int, keep_going: bool = False, always: bool = False
) -> tuple[Failures, dict[str, str]]:
    """Run the jobs; return what failed, and how each ended."""
    by_name = {job.name: job for job in jobs}
    observed = Observed()
    scheduler = Scheduler(by_name, observed, threads, keep_going, always)
    return scheduler.run(needed(by_name, by_name)), observed.ends


def job(
    name: str, action: Callable[[], object], *needs: str, done: bool = False
) -> Job:
    """A job that runs a function."""

    def act() -> None:
        action()

    return Job(name, needs, act, is_up_to_date=lambda: done)


def fail() -> None:
    raise IngotError("it failed")


@pytest.mark.parametrize("threads", [1, 2, 200])
def test_each_job_runs_once_and_after_what_it_needs(threads: int) -> None:
    numbers, ended = random.Random(7), list[int]()
    needs = [numbers.sample(range(i), min(i, numbers.randrange(4))) for i in range(60)]

    def action(number: int) -> Callable[[], object]:
        def end() -> None:
            assert set(needs[number]) - set(current) <= set(ended)
            ended.append(number)

        return end

    current = {3, 20, 21}
    jobs = [
        job(str(i), action(i), *map(str, needs[i]), done=i in current)
        for i in range(60)
    ]
    failures, ends = run(jobs, threads)
    assert failures == Failures()
    assert sorted(ended) == sorted(set(range(60)) - current)
    assert {int(name) for name, end in ends.items() if end == "up to date"} == current
    # Asked to run always, those that are up to date run too.
    ended.clear()
    current = set()
    assert run(jobs, threads, always=True)[0] == Failures()
    assert sorted(ended) == list(range(60))


def test_queued_jobs_do_not_start_after_a_failure() -> None:
    begun: list[str] = []

    def act(name: str, ends: bool) -> Callable[[], object]:
        def action() -> None:
            begun.append(name)
            if not ends:
                fail()

        return action

    jobs = [job("a", act("a", True)), job("b", act("b", False))]
    jobs += [job(name, act(name, True)) for name in "cdefgh"]
    failures, ends = run(jobs, 1)
    assert failures == Failures(("b",))
    assert begun == ["a", "b"]
    assert ends == {"a": "succeeded", "b": "failed: it failed"}
    begun.clear()
    assert run(jobs, 1, keep_going=True)[0] == Failures(("b",))
    assert begun == list("abcdefgh")


def test_a_job_that_needs_a_failed_one_is_not_tried() -> None:
    jobs = [
        job("a", fail),
        job("b", fail, "a"),
        job("c", fail, "b", "a"),
        job("d", lambda: None),
        Job("all", ("c", "d")),
    ]
    assert run(jobs, 2, keep_going=True) == (
        Failures(("a",)),
        {
            "a": "failed: it failed",
            **dict.fromkeys(("b", "c", "all"), "not tried"),
            "d": "succeeded",
        },
    )


def test_an_unexpected_exception_is_an_internal_error_with_its_traceback() -> None:
    failures, ends = run([job("a", lambda: 1 / 0)], 1)
    assert failures == Failures(("a",), internal=True)
    assert ends["a"].startswith("failed: a: internal error\nTraceback ")
    assert "ZeroDivisionError" in ends["a"]


def test_jobs_that_need_each_other_are_rejected() -> None:
    jobs = {
        name: Job(name, tuple(needs))
        for name, needs in {"a": "b", "b": "c", "c": "db", "d": ""}.items()
    }
    assert needed(jobs, ["d"]) == ["d"]
    with pytest.raises(IngotError) as caught:
        needed(jobs, ["a"])
    assert str(caught.value) == "tasks need each other: b -> c -> b"


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_an_exclusive_job_runs_once_nothing_else_can(threads: int) -> None:
    under_way, order, beside = set[str](), list[str](), set[str]()

    def action(name: str) -> Callable[[], None]:
        def end() -> None:
            under_way.add(name)
            order.append(name)
            beside.update(under_way if name in "xy" else ())
            time.sleep(0.005)
            beside.update(under_way if name in "xy" else ())
            under_way.remove(name)

        return end

    # x needs nothing, y needs b; z, which d waits for, needs x.
    needs = {"x": "", "a": "", "b": "a", "y": "b", "z": "x", "c": "b", "d": "z"}
    jobs = [
        Job(name, tuple(needs[name]), action(name), exclusive=name in "xy")
        for name in needs
    ]
    assert run(jobs, threads)[0] == Failures()
    assert sorted(order) == sorted(needs)
    # No other job ran at the same time.
    assert beside == {"x", "y"}
    assert set(order[:3]) == {"a", "b", "c"}


def test_a_waiting_exclusive_job_does_not_start_after_a_failure() -> None:
    begun: list[str] = []
    waiting = Job("x", (), lambda: begun.append("x"), exclusive=True)
    assert run([waiting, job("b", fail)], 1)[0] == Failures(("b",))
    assert begun == []


def test_an_exception_that_ends_a_thread_ends_the_run() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    waiting = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        run([job("a", waiting.wait), job("b", stop)], 2)
    waiting.set()


def test_a_restored_job_uses_no_thread_and_releases_the_next_ones() -> None:
    threads: list[int] = []

    def act() -> None:
        threads.append(threading.get_ident())

    def restore(name: str) -> Callable[[], bool]:
        def restored() -> bool:
            assert threading.current_thread() is threading.main_thread()
            return name != "c"

        return restored

    needs = {"a": "", "b": "a", "c": "b", "d": "c"}
    jobs = [Job(n, tuple(needs[n]), act, restore=restore(n)) for n in needs]
    assert run(jobs, 2)[0] == Failures()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
