"""Measure what a running command uses, and compare it with its limits.

A control group would need rights that neither a container nor a user has everywhere,
and a limit of the process (`setrlimit`) holds for each process alone and counts what it
has reserved, not what it uses. So the build looks at the command's processes a few
times a second: what it kills may have used a little more than its limit by then.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from ingot.engine.actions import Limits
from ingot.engine.machine import memory_bytes

# Far more than any action of a model needs; a command that hangs ends all the same.
TIME_S = 6 * 3600
PROCESSES = 2000

# How long a command runs before it is looked at, and between two looks.
LOOK_S = 0.25

GIB = 1 << 30


class Usage:
    """What one command has used, since it started."""

    def __init__(self, pid: int, limits: Limits) -> None:
        """Watch the process and all its children."""
        self._pid = pid
        self._start = time.monotonic()
        self._time_s = limits.time_s or TIME_S
        self._memory_bytes = limits.memory_bytes or memory_bytes()
        self._processes = limits.processes or PROCESSES

    def wait_s(self) -> float:
        """Return how long to wait before the next look."""
        left_s = self._start + self._time_s - time.monotonic()
        return max(0.0, min(LOOK_S, left_s))

    def exceeded(self) -> str:
        """Return which limit the command exceeds, and how to raise it; or ""."""
        if time.monotonic() - self._start >= self._time_s:
            return _text(f"after {self._time_s} s", "time_s")
        pids = list(_tree(self._pid))
        if len(pids) > self._processes:
            limit = f"its limit is {self._processes:,}"
            return _text(f"when it had {len(pids):,} processes; {limit}", "processes")
        used = sum(map(_own_bytes, pids))
        if used > self._memory_bytes:
            limit = f"its limit is {self._memory_bytes / GIB:.1f} GiB"
            return _text(
                f"when it used {used / GIB:.1f} GiB of memory; {limit}",
                "memory_gib",
            )
        return ""


def _text(when: str, key: str) -> str:
    return (
        f"ingot stopped it {when}\n"
        f"  raise it: {key} under limits in the manifest, or in the target"
    )


def _tree(pid: int) -> Iterator[int]:
    """Yield the process and those that it has started."""
    pending = [pid]
    while pending:
        pid = pending.pop()
        yield pid
        path = f"/proc/{pid}/task/{pid}/children"
        with contextlib.suppress(OSError), open(path, "rb") as file:
            pending += map(int, file.read().split())


def _own_bytes(pid: int) -> int:
    """Return the memory that only this process has: mapped files are shared."""
    used = 0
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", "rb") as file:
        for line in file:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                used += int(line.split()[1]) << 10
    return used
