"""Append a line about each finished build to the checkout's history.

People ask about nightly builds over time: what ran and why, what the checks and
benchmarks measured, and how large the bundles are. `build/.ingot/history.jsonl` records
the answers. A build with nothing to do adds no line.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ingot.engine import json_lines

if TYPE_CHECKING:
    from ingot.engine.event_log import EventLog

SCHEMA = "ingot.history.v1"
FILE = "build/.ingot/history.jsonl"
# The folders of failed actions.
FAILED = "build/.ingot/failed"
# Only this many lines of a failed action's message are recorded.
MOST_LINES = 12
# A line records the figures of these stages.
MEASURED = ("check", "bench", "bundle", "compile")


def add(log: EventLog, exit_code: int, wall_s: float) -> None:
    """Append the build's line to the checkout's history."""
    changed = {task: how for task, how in log.ends.items() if how != "up to date"}
    if not changed:
        return
    pairs = sorted(
        {
            task.partition(":")[2]
            for task, how in changed.items()
            if task.partition(":")[0] in MEASURED
            and (how != "failed" or task.startswith("check:"))
        }
    )
    line = {
        "schema": SCHEMA,
        "at": round(log.started_s, 3),
        "words": log.words,
        "exit_code": exit_code,
        "wall_s": round(wall_s, 3),
        "counts": dict(sorted(log.counts.items())),
        "actions": {
            task: {"how": how, "why": log.reasons.get(task, [])}
            | _failure(log.messages.get(task, ""), log.root)
            for task, how in changed.items()
        },
        "results": {pair: _figures(log, pair) for pair in pairs},
        "checked": sorted(
            task.partition(":")[2]
            for task, how in log.ends.items()
            if task.startswith("check:") and how == "up to date"
        ),
    }
    path = log.root / FILE
    json_lines.append(path, line)
    json_lines.trim(path)


def _figures(log: EventLog, pair: str) -> dict[str, Any]:
    """Return the figures of a pair, without the check of an earlier artifact."""
    found = figures(log.root, *pair.split("@"))
    ended = log.ends.get(f"check:{pair}")
    if ended in (None, "failed"):
        found = {key: x for key, x in found.items() if key not in ("passed", "check")}
    rows = _comparisons(log.root / FAILED / f"check-{pair}")
    if ended == "failed" and rows:
        found["compared"] = rows
    return found


def _comparisons(folder: Path) -> list[dict[str, Any]]:
    """Return the comparisons of a failed check; [] if it failed before them."""
    return [
        {key: row[key] for key in ("level", "name", "inputs", "tolerance", "passed")}
        | {"error": row["max_abs_error"]}
        for row in _load(folder / "check.json").get("rows", [])
    ]


def _failure(message: str, root: Path) -> dict[str, str]:
    """Return the end of a failed action's message, where tools state the reason."""
    lines = message.replace(f"{root}/", "").splitlines()
    if len(lines) > MOST_LINES:
        lines = [lines[0], "...", *lines[2 - MOST_LINES :]]
    return {"message": "\n".join(lines)} if message else {}


def figures(root: Path, model: str, target: str) -> dict[str, Any]:
    """Return the figures of a model's last build for a target."""
    folder = root / "build" / model / target
    found: dict[str, Any] = {"sizes": _sizes(folder)}
    check, bench = _load(folder / "check.json"), _load(folder / "bench.json")
    if check:
        found["passed"] = check.get("passed", False)
        found["check"] = {
            name: {
                "worst": level["max_abs_error"],
                "tolerance": level["tolerance"],
                "rows": level["rows"],
                "failed": level["failed"],
            }
            for name, level in check.get("levels", {}).items()
        }
        found |= {key: check[key] for key in ("judge", "quality") if check.get(key)}
    if bench:
        found["emulated"] = bench.get("emulated", False)
        found["machine"] = bench.get("machine", {}).get("cpu", "")
        found["bench"] = [
            {key: run[key] for key in ("entry_point", "sizes", "latency_ms")}
            | {"repetitions_ms": run.get("repetitions_ms", [])}
            for run in bench.get("runs", [])
        ]
    return found


def _sizes(folder: Path) -> dict[str, int]:
    sizes = {}
    for name in ("model.vmfb", "bundle/model.irpa"):
        with contextlib.suppress(OSError):
            sizes[Path(name).suffix[1:]] = (folder / name).stat().st_size
    return sizes


def _load(path: Path) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return loaded
    return {}
