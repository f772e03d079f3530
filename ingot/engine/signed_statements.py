"""Define what a signature of a result says, and which keys may say it.

These are only values: `ingot.engine.signatures` signs and verifies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from ingot.engine.actions import ActionResult, Digest


@dataclass(frozen=True, slots=True)
class ResultStatement:
    """What the signature of a result says.

    The messages that describe the action are not in it: the key is their hash.
    """

    action: str  # the hash that is its key
    outputs: tuple[tuple[str, Digest], ...]
    log: Digest | None
    task: str
    wall_us: int


@dataclass(frozen=True, slots=True)
class HintStatement:
    """What the signature of a hint says: as which action a task was last built."""

    project: str
    task: str
    action: str
    at_s: int


Statement = ResultStatement | HintStatement


def result_statement(key: str, result: ActionResult) -> ResultStatement:
    """Return the statement that the result with that key is."""
    outputs = tuple(sorted(result.outputs))
    wall_us = round(result.wall_ms * 1e3)
    return ResultStatement(key, outputs, result.log, result.task, wall_us)


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key of the project's, and what results signed with it are good for."""

    name: str  # "ci-2026"
    public: str  # as in a PEM file, without its dashes: "MCowBQYDK2VwAyEA..."
    expires: str  # the last day on which its signatures count: "2027-06-30"
    signs: tuple[str, ...] = ("*",)  # patterns of tasks: "compile:*@x86_64"
    revoked: str = ""  # why it is trusted no longer; "" if it is trusted

    def why_not(self, task: str, today: str) -> str:
        """Return why its signature does not count for the task; "" if it does."""
        if self.revoked:
            return f"signed by '{self.name}', which was revoked ({self.revoked})"
        if today > self.expires:
            return f"signed by '{self.name}', which expired on {self.expires}"
        if not any(fnmatchcase(task, pattern) for pattern in self.signs):
            stage = task.partition(":")[0]
            return f"signed by '{self.name}', which may not sign {stage} results"
        return ""
