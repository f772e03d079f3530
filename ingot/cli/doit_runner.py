"""doit's tasks in, run by threads: the next ones are chosen while others run.

doit's own thread runner chooses a task once a thread has nothing to do, and passes it
there and back through queues that are made for processes: an eighth of what a small
action costs, during which a processor waits. What must have the machine alone is left
until nothing else can run: it would hold a thread while it waits.
"""

from __future__ import annotations

from collections import deque
from queue import SimpleQueue
from threading import Thread
from typing import Any

from doit.control import TaskControl
from doit.exceptions import InvalidCommand
from doit.runner import MThreadRunner

from ingot.cli.doit_task import Current, Step

# Tasks that are chosen before a thread is free.
N_AHEAD = 2


class Tasks(TaskControl):  # type: ignore[misc]
    """doit's choice of tasks; a pattern that names none is refused."""

    def _get_wild_tasks(self, pattern: str) -> list[str]:
        found: list[str] = super()._get_wild_tasks(pattern)
        if not found:
            raise InvalidCommand(not_found=pattern)
        return found


class ThreadRunner(MThreadRunner):  # type: ignore[misc]
    """Runs tasks by threads; the main thread chooses them and hears of their ends."""

    # Whether what is chosen but not begun is to be left.
    _leaves = False

    def run_tasks(self, task_dispatcher: Any) -> None:
        """Run everything that is selected and not up to date.

        Raises: what ends a thread, such as KeyboardInterrupt.
        """
        self._run_tasks_init(task_dispatcher)
        chosen: SimpleQueue[Any] = SimpleQueue()
        ended: SimpleQueue[Any] = SimpleQueue()
        threads: list[Thread] = []
        self._alone: deque[Any] = deque()
        node, under_way = None, 0
        while True:
            while under_way < self.num_process + N_AHEAD:
                node = self._next(node, under_way)
                if node is None:
                    break
                chosen.put(node)
                node, under_way = None, under_way + 1
                if len(threads) < self.num_process:
                    words = (chosen, ended)
                    threads.append(Thread(target=self._work, args=words, daemon=True))
                    threads[-1].start()
            if not under_way:
                break
            node, has_run, end = ended.get()
            under_way -= 1
            if isinstance(end, BaseException):
                raise end
            if has_run:
                self.process_task_result(node, end)
        for _ in threads:
            chosen.put(None)
        for thread in threads:
            thread.join()

    def select_task(self, node: Any, tasks_dict: dict[str, Any]) -> bool:
        """Return whether the task is to run now.

        doit's own way looks for files and values that ours do not have: half of what a
        task with nothing to do costs.
        """
        task = node.task
        checks = [check for check, _, _ in task.uptodate]
        usual = not (node.run_status or node.bad_deps or node.ignored_deps)
        if self.always_execute or not usual or [type(c) for c in checks] != [Current]:
            return bool(super().select_task(node, tasks_dict))
        if checks[0]():
            node.run_status = "up-to-date"
            self.reporter.skip_uptodate(task)
            return False
        node.run_status = "run"
        return True

    def _next(self, ended: Any, under_way: int) -> Any:
        """Return a task to run; None where there is none until another one ends."""
        node = ended
        while not self._stop_running:
            try:
                node = self.task_dispatcher.generator.send(node)
            except StopIteration:
                break
            if node == "hold on":
                break
            if self.select_task(node, self.tasks):
                # Handing what is small to a thread takes longer than restoring it.
                step = next(iter(node.task.actions), None)
                if isinstance(step, Step) and step.restore():
                    self.process_task_result(node, None)
                    continue
                if not getattr(node.task, "alone", False):
                    return node
                self._alone.append(node)
                node = None
        now = self._alone and not under_way and not self._stop_running
        return self._alone.popleft() if now else None

    def _work(self, chosen: SimpleQueue[Any], ended: SimpleQueue[Any]) -> None:
        """Run what is chosen; tell the main thread how each task ended."""
        while (node := chosen.get()) is not None:
            if self._leaves:
                ended.put((node, False, None))
                continue
            try:
                end = self.execute_task(node.task)
            except BaseException as error:
                end = error
            self._leaves |= end is not None and not self.continue_
            ended.put((node, True, end))
