"""Describe this machine: the facts that change how long something takes.

A benchmark's figures and key name the processor, the cores and the memory that it ran
with; plans ask for the processor's features.
"""

from __future__ import annotations

import os
import platform
from functools import cache


@cache
def machine() -> tuple[tuple[str, str], ...]:
    """Return the facts of this machine that change how long something takes."""
    return (
        ("cpu", _cpu_name()),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("memory", f"{round(memory_bytes() / 2**30)} GiB"),
    )


@cache
def cpu_info() -> dict[str, str]:
    """Return what /proc/cpuinfo says about the first processor; {} without one."""
    facts: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            # Stop at the first processor: on a large machine the rest takes
            # milliseconds.
            for line in lines:
                if not line.strip():
                    break
                key, _, value = line.partition(":")
                facts[key.strip()] = value.strip()
    except OSError:
        pass
    return facts


def cpu_features() -> str:
    """Return the processor's features in Linux's names; "" if it lists none."""
    # "flags" on x86, "Features" on Arm; all cores have the same.
    return cpu_info().get("flags") or cpu_info().get("Features", "")


def processor_gap(machine: str | None, features: tuple[str, ...]) -> str | None:
    """Return why this processor cannot run code for a machine with these features.

    Returns None where it can. Code for features that the processor lacks ends with
    SIGILL, which does not say what is missing.
    """
    if machine not in (None, platform.machine()):
        return f"the processor is {platform.machine()}, not {machine}"
    found = cpu_features().split()
    missing = [name for name in features if name not in found]
    return f"the processor lacks {', '.join(missing)}" if missing else None


def _cpu_name() -> str:
    """Return the processor's name, or else its implementer and part."""
    facts = cpu_info()
    if "model name" in facts:
        return facts["model name"]
    part = f"{facts.get('CPU implementer', '')} {facts.get('CPU part', '')}".strip()
    return f"{platform.machine()} {part}".strip()


def memory_bytes() -> int:
    """Return the size of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
