"""The runner of tasks: everything runs once, after what it needs, until one fails."""

from __future__ import annotations

import io
import random
import threading
import time
from collections.abc import Callable

import pytest
from doit.control import TaskControl
from doit.dependency import Dependency
from doit.task import Stream, Task

from ingot.cli.doit_backend import NoDatabase
from ingot.cli.doit_runner import ThreadRunner
from ingot.cli.doit_task import ActionTask, Current, Step
from ingot.cli.reporter import QuietReporter
from ingot.engine.actions import Action


def run(tasks: list[Task], threads: int, go_on: bool = False) -> int:
    """Run the tasks; return doit's exit code."""
    control = TaskControl(tasks)
    control.process(None)
    database, reporter = Dependency(NoDatabase, ""), QuietReporter(io.StringIO(), {})
    runner = ThreadRunner(database, reporter, go_on, False, Stream(0), threads)
    return int(runner.run_all(control.task_dispatcher()))


def task(
    name: str, action: Callable[[], object], *needed: str, done: bool = False
) -> Task:
    return Task(name, [action], task_dep=list(needed), uptodate=[done])


@pytest.mark.parametrize("threads", [1, 2, 200])
def test_each_task_runs_once_and_after_what_it_needs(threads: int) -> None:
    numbers, ended = random.Random(7), list[int]()
    needed = [numbers.sample(range(i), min(i, numbers.randrange(4))) for i in range(60)]

    def action(number: int) -> Callable[[], object]:
        def end() -> None:
            assert set(needed[number]) - set(current) <= set(ended)
            ended.append(number)

        return end

    current = {3, 20, 21}
    tasks = [
        task(str(i), action(i), *map(str, needed[i]), done=i in current)
        for i in range(60)
    ]
    assert run(tasks, threads) == 0
    assert sorted(ended) == sorted(set(range(60)) - current)


def test_what_was_chosen_but_not_begun_is_left_once_a_task_has_failed() -> None:
    begun: list[str] = []

    def act(name: str, ends: bool) -> Callable[[], object]:
        return lambda: begun.append(name) or ends

    tasks = [task("a", act("a", True)), task("b", act("b", False))]
    tasks += [task(name, act(name, True)) for name in "cdefgh"]
    assert run(tasks, 1) == 1
    assert begun == ["a", "b"]
    begun.clear()
    assert run(tasks, 1, go_on=True) == 1
    assert begun == list("abcdefgh")


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_what_wants_the_machine_alone_runs_once_nothing_else_can(threads: int) -> None:
    under_way, order, beside = set[str](), list[str](), set[str]()

    def action(name: str) -> Callable[[], object]:
        def end() -> None:
            under_way.add(name)
            order.append(name)
            beside.update(under_way if name in "xy" else ())
            time.sleep(0.005)
            beside.update(under_way if name in "xy" else ())
            under_way.remove(name)

        return end

    # x needs nothing, y needs b; z, which d waits for, needs x.
    needed = {"x": "", "a": "", "b": "a", "y": "b", "z": "x", "c": "b", "d": "z"}
    tasks = [task(name, action(name), *needed[name]) for name in needed]
    for item in tasks:
        item.alone = item.name in "xy"
    assert run(tasks, threads) == 0
    assert sorted(order) == sorted(needed)
    # Each was seen beside itself only.
    assert beside == {"x", "y"}
    assert set(order[:3]) == {"a", "b", "c"}


def test_what_waits_to_be_alone_is_left_once_a_task_has_failed() -> None:
    begun: list[str] = []
    waiting = task("x", lambda: begun.append("x"))
    waiting.alone = True
    assert run([waiting, task("b", lambda: begun.append("b") or False)], 1) == 1
    assert begun == ["b"]


def test_what_ends_a_thread_ends_the_run() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    waiting = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        run([task("a", waiting.wait), task("b", stop)], 2)
    waiting.set()


def test_what_is_restored_takes_no_thread_and_lets_the_next_ones_go_on() -> None:
    threads: list[int] = []

    def perform(action: Action) -> None:
        threads.append(threading.get_ident())

    def restore(action: Action) -> bool:
        assert threading.current_thread() is threading.main_thread()
        return action.task != "c"

    def step(name: str, *needed: str) -> ActionTask:
        action = Action(task=name, argv=(), inputs=(), outputs=())
        current = Current(lambda _: False, action)
        return ActionTask(Step(perform, restore, action), current, list(needed), False)

    tasks = [step("a"), step("b", "a"), step("c", "b"), step("d", "c")]
    assert run(tasks, 2) == 0
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
