"""/proc/cpuinfo in, what it says of the first processor out."""

from __future__ import annotations

from functools import cache


@cache
def processor() -> dict[str, str]:
    """Return Linux's facts of the first processor; none where it tells none."""
    facts: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            # The others are not read: on a large machine that takes milliseconds.
            for line in lines:
                if not line.strip():
                    break
                key, _, value = line.partition(":")
                facts[key.strip()] = value.strip()
    except OSError:
        pass
    return facts


def features() -> str:
    """Return the processor's features as Linux names them; none where it does not."""
    # "flags" on x86, "Features" on Arm; alike for every core.
    return processor().get("flags") or processor().get("Features", "")
