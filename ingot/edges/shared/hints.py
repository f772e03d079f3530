"""As which action a task was last built: a hint that one machine leaves for others.

It is a result like any other, so every server keeps it: under a key made of project and
task, with the messages of the action as its files. Whoever builds the task next puts
another in its place. No build reads it: only `doit why` does, to say what differs.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass

from ingot.edges import results
from ingot.edges.message import Damaged, Message
from ingot.keys import digest_message, field, text
from ingot.values import Digest

# When it was built, in seconds since 1970; other programs skip what they do not know.
TIME_TYPE = "ingot/built-at"

# An action is some messages of some kilobytes; more than this is something else.
MESSAGE_BYTES = 1 << 20
N_MESSAGES = 1000


@dataclass(frozen=True, slots=True)
class Last:
    """The action that a task was last built as: its key first, then other messages."""

    messages: tuple[Digest, ...]
    at_s: float

    @property
    def key(self) -> Digest:
        """Return the action's key."""
        return self.messages[0]


def place(project: str, task: str) -> Digest:
    """Return the key under which a cache keeps the hint."""
    text = f"ingot: the last action of a task\n{project}\n{task}".encode()
    return Digest(hashlib.sha256(text).hexdigest(), len(text))


def to_bytes(task: str, last: Last) -> bytes:
    """Return the hint as an `ActionResult` message."""
    files = [
        field(2, text(1, f"message-{place:03}") + field(2, digest_message(digest)))
        for place, digest in enumerate(last.messages)
    ]
    about = ((results.TASK_TYPE, task), (TIME_TYPE, f"{last.at_s:.0f}"))
    told = [
        field(11, text(1, name) + field(2, value.encode())) for name, value in about
    ]
    return b"".join(files) + field(9, b"".join(told))


def from_bytes(content: bytes, task: str) -> Last | None:
    """Return the hint of that task; None where the bytes are anything else."""
    with contextlib.suppress(Damaged, ValueError):
        found = results.from_bytes(content)
        told = Message(Message(content).bytes_at(9))
        about = [Message(item) for item in told.all_at(11)]
        times = [float(a.bytes_at(2)) for a in about if a.text_at(1) == TIME_TYPE]
        messages = tuple(digest for _, digest in sorted(found.outputs))
        small = all(digest.size_bytes <= MESSAGE_BYTES for digest in messages)
        if found.task == task and times and small and 0 < len(messages) <= N_MESSAGES:
            return Last(messages, times[0])
    return None
