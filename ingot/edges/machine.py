"""What a time was measured on: the processor's name, its cores, the memory."""

from __future__ import annotations

import os
import platform
from functools import cache


@cache
def machine() -> tuple[tuple[str, str], ...]:
    """Return the facts of this machine that change how long something takes."""
    return (
        ("cpu", _processor()),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{round(_memory_bytes() / 2**30)} GiB"),
    )


def _processor() -> str:
    """Return the processor's name; where it has none, its implementer and part."""
    facts: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                key, _, value = line.partition(":")
                facts.setdefault(key.strip(), value.strip())
    except OSError:
        pass
    if "model name" in facts:
        return facts["model name"]
    part = f"{facts.get('CPU implementer', '')} {facts.get('CPU part', '')}".strip()
    return f"{platform.machine()} {part}".strip()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
