"""What a time was measured on: the processor's name, its cores, the memory."""

from __future__ import annotations

import os
import platform
from functools import cache

from ingot.engine.cpu_info import processor


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
    facts = processor()
    if "model name" in facts:
        return facts["model name"]
    part = f"{facts.get('CPU implementer', '')} {facts.get('CPU part', '')}".strip()
    return f"{platform.machine()} {part}".strip()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
