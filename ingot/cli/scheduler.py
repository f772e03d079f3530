"""Run jobs by threads, each after those that it needs.

The main thread chooses jobs and learns how they end. It restores small results itself:
handing one to a thread takes longer than restoring it. A job that needs the machine for
itself waits until nothing else can run, because it would hold a thread while it waits.
"""

from __future__ import annotations

import heapq
import traceback
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Protocol

from ingot.errors import IngotError

# Jobs that are chosen before a thread is free: no thread waits for the next one.
N_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of work; a group only has needs, and runs nothing."""

    name: str
    needs: tuple[str, ...] = ()
    run: Callable[[], None] | None = None  # raises IngotError if it fails
    is_up_to_date: Callable[[], bool] = lambda: False
    restore: Callable[[], bool] = lambda: False  # gets a small result at once
    exclusive: bool = False


class Observer(Protocol):
    """Is notified of what happens; `started` is called from threads."""

    def started(self, name: str) -> None:
        """A job has started."""

    def up_to_date(self, name: str) -> None:
        """A job had nothing to do."""

    def succeeded(self, name: str) -> None:
        """A job, which may be a group, has ended well."""

    def failed(self, name: str, text: str) -> None:
        """A job has failed."""

    def not_tried(self, name: str) -> None:
        """A job did not run because one that it needs has failed."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Jobs that failed, and whether one failed by an internal error."""

    names: tuple[str, ...] = ()
    internal: bool = False


def needed(jobs: Mapping[str, Job], names: Iterable[str]) -> list[str]:
    """Return the jobs and all that they need, each after what it needs.

    Raises: IngotError if jobs need each other.
    """
    order: dict[str, None] = {}
    for name in names:
        path: dict[str, Iterator[str]] = {name: iter(jobs[name].needs)}
        while path:
            above, rest = next(reversed(path.items()))
            below = next((item for item in rest if item not in order), None)
            if below is None:
                path.pop(above)
                order[above] = None
            elif below in path:
                circle = [*list(path)[list(path).index(below) :], below]
                raise IngotError(f"tasks need each other: {' -> '.join(circle)}")
            else:
                path[below] = iter(jobs[below].needs)
    return list(order)


class Scheduler:
    """Runs jobs once; an object runs one list of jobs."""

    def __init__(
        self,
        jobs: Mapping[str, Job],
        observer: Observer,
        n_threads: int,
        keep_going: bool = False,
        always: bool = False,
    ) -> None:
        """Prepare to run the jobs; `always` treats none as up to date."""
        self._jobs = jobs
        self._observer = observer
        self._n_threads = n_threads
        self._keep_going = keep_going
        self._always = always
        self._order: list[str] = []
        self._positions: dict[str, int] = {}
        self._missing: dict[str, int] = {}  # how many needed jobs have not ended
        self._followers: dict[str, list[str]] = defaultdict(list)
        self._ready: list[int] = []  # a heap of positions in the order
        self._exclusive: deque[Job] = deque()
        self._failed: list[str] = []
        self._internal = False
        # Threads then start no job that waits in the queue.
        self._stopping = False

    def run(self, order: list[str]) -> Failures:
        """Run the jobs in the order that `needed` returned; return those that failed.

        Raises: what ends a thread, such as KeyboardInterrupt.
        """
        self._prepare(order)
        chosen: SimpleQueue[Job | None] = SimpleQueue()
        ended: SimpleQueue[tuple[Job, BaseException | None]] = SimpleQueue()
        threads: list[Thread] = []
        under_way = 0
        while True:
            while under_way < self._n_threads + N_AHEAD:
                job = self._next(under_way)
                if job is None:
                    break
                chosen.put(job)
                under_way += 1
                if len(threads) < self._n_threads:
                    queues = (chosen, ended)
                    threads.append(Thread(target=self._work, args=queues, daemon=True))
                    threads[-1].start()
            if not under_way:
                break
            job, error = ended.get()
            under_way -= 1
            self._end(job, error)
        for _ in threads:
            chosen.put(None)
        for thread in threads:
            thread.join()
        return Failures(tuple(self._failed), self._internal)

    def _prepare(self, order: list[str]) -> None:
        self._order = order
        self._positions = {name: position for position, name in enumerate(order)}
        for position, name in enumerate(order):
            needs = list(dict.fromkeys(self._jobs[name].needs))
            self._missing[name] = len(needs)
            for item in needs:
                self._followers[item].append(name)
            if not needs:
                self._ready.append(position)

    def _next(self, under_way: int) -> Job | None:
        """Return a job to run; None if there is none until another one ends."""
        while self._ready and not self._stopping:
            job = self._jobs[self._order[heapq.heappop(self._ready)]]
            if job.run is None:
                self._succeed(job)
            elif not self._always and job.is_up_to_date():
                self._observer.up_to_date(job.name)
                self._release(job)
            elif job.restore():
                self._succeed(job)
            elif job.exclusive:
                self._exclusive.append(job)
            else:
                return job
        if self._exclusive and not under_way and not self._stopping:
            return self._exclusive.popleft()
        return None

    def _work(
        self,
        chosen: SimpleQueue[Job | None],
        ended: SimpleQueue[tuple[Job, BaseException | None]],
    ) -> None:
        """Run what is chosen; report to the main thread how each job ended."""
        while (job := chosen.get()) is not None:
            if self._stopping:
                ended.put((job, _NotStarted()))
                continue
            error: BaseException | None = None
            try:
                self._observer.started(job.name)
                assert job.run is not None
                job.run()
            except BaseException as caught:
                error = caught
                self._stopping |= not self._keep_going
            ended.put((job, error))

    def _end(self, job: Job, error: BaseException | None) -> None:
        if error is None:
            self._succeed(job)
        elif isinstance(error, IngotError):
            self._fail(job, str(error))
        elif isinstance(error, Exception):
            self._internal = True
            trace = "".join(traceback.format_exception(error))
            self._fail(job, f"{job.name}: internal error\n{trace}")
        elif not isinstance(error, _NotStarted):
            raise error

    def _succeed(self, job: Job) -> None:
        self._observer.succeeded(job.name)
        self._release(job)

    def _release(self, job: Job) -> None:
        """Make the jobs ready that waited only for this one."""
        for name in self._followers[job.name]:
            self._missing[name] -= 1
            if not self._missing[name]:
                heapq.heappush(self._ready, self._positions[name])

    def _fail(self, job: Job, text: str) -> None:
        self._failed.append(job.name)
        self._observer.failed(job.name, text)
        if not self._keep_going:
            return
        pending = deque(self._followers[job.name])
        while pending:
            name = pending.popleft()
            if self._missing[name] >= 0:
                self._missing[name] = -1
                self._observer.not_tried(name)
                pending.extend(self._followers[name])


class _NotStarted(BaseException):
    """The end of a job that a thread did not start."""
