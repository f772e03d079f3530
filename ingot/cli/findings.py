"""What was looked at on this machine, as values, and the report of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ingot.engine import process

# Long enough for an emulator on a busy machine; a driver that hangs is a finding too.
TIMEOUT_S = 60


class Level(StrEnum):
    """How much a finding matters: an error stops builds, a warning limits them."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at, and what mends it."""

    subject: str
    level: Level
    found: str
    remedy: str = ""


def render(findings: Sequence[Finding]) -> str:
    """Return the report: a line a finding, its remedy below it, a count at the end."""
    width = max((len(item.subject) for item in findings), default=0)
    lines = []
    for item in findings:
        lines.append(f"{item.level:<8} {item.subject:<{width}}  {item.found}")
        if item.remedy:
            lines.append(f"{'':<8} {'':<{width}}  {item.remedy}")
    counts = [
        f"{n} {word}{'s' * (n != 1)}"
        for word, level in (("error", Level.ERROR), ("warning", Level.WARNING))
        if (n := sum(item.level is level for item in findings))
    ]
    lines.append(f"{len(findings)} checks: {', '.join(counts) or 'all is well'}")
    return "\n".join(lines)


def start(
    *argv: str, folder: Path = Path("/"), env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Return the exit code of a command and what it printed; it ends in TIMEOUT_S.

    A program that a signal killed has the signal's number, negative.
    """
    # In this process's group, so that it dies with it.
    words = ("--foreground", "--kill-after=5", str(TIMEOUT_S))
    limited = ("timeout", *words, *argv)
    variables = env or dict(os.environ)
    done = process.run(limited, folder, variables, {}, sandboxed=False, network=True)
    if done.exit_code in (124, 137):  # what `timeout` says when it ended the command
        return done.exit_code, f"no answer in {TIMEOUT_S} s"
    return done.exit_code, done.output.decode(errors="replace")


def last_line(words: str) -> str:
    """Return the last line that says something: where tools put the reason."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else "it printed nothing"
