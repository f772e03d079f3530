"""Check a trace against the description of the format, not against its writer.

Source: "Trace Event Format", sections "JSON Object Format", "Complete Events" and
"Metadata Events"; complete events of one thread must nest.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

METADATA = ("process_name", "thread_name")


def defects(trace: dict[str, Any]) -> list[str]:
    """Return what a reader of the format would reject or misinterpret."""
    found = []
    if trace.get("displayTimeUnit") not in ("ms", "ns"):
        found.append("displayTimeUnit is neither ms nor ns")
    threads: defaultdict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    named = set()
    for event in trace["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] not in METADATA or not event["args"].get("name"):
                found.append(f"metadata of no known kind: {event}")
            named.add((event["pid"], event.get("tid")))
        elif event["ph"] != "X":
            found.append(f"an event of another kind: {event}")
        elif wrong := _wrong_fields(event):
            found.append(f"{wrong} is no such thing: {event}")
        else:
            threads[event["pid"], event["tid"]].append(event)
    found += [f"thread {thread} has no name" for thread in threads.keys() - named]
    for events in threads.values():
        found += _overlaps(events)
    return found


def _wrong_fields(event: dict[str, Any]) -> str:
    """Return the fields that a complete event lacks, or has as something else."""
    kinds = {"name": str, "cat": str, "ts": int, "dur": int, "pid": int, "tid": int}
    wrong = [name for name, kind in kinds.items() if type(event.get(name)) is not kind]
    if not wrong:
        wrong = [name for name in ("ts", "dur") if event[name] < 0]
    return ", ".join(wrong)


def _overlaps(events: list[dict[str, Any]]) -> list[str]:
    """Return the events that begin within another one and end after it."""
    found, around = [], list[int]()
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        end = event["ts"] + event["dur"]
        while around and around[-1] <= event["ts"]:
            around.pop()
        if around and end > around[-1]:
            found.append(f"it ends after what it is in: {event}")
        around.append(end)
    return found
