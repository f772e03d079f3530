"""As which action a task was last built: a hint that one machine leaves for others.

It is a result like any other, so every server keeps it: under a key made of project and
task, with the messages of the action. Whoever builds the task next puts another in its
place. No build reads it: only `doit why` does, to say what differs.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass

from ingot.engine import results
from ingot.engine.actions import Digest
from ingot.engine.keys import field
from ingot.engine.protobuf_wire import CorruptMessage, Message

# When it was built, in seconds since 1970; other programs skip what they do not know.
TIME_TYPE = "ingot/built-at"


@dataclass(frozen=True, slots=True)
class Last:
    """The action that a task was last built as, in messages, its own first."""

    messages: tuple[bytes, ...]
    at_s: float

    @property
    def key(self) -> str:
        """Return the hash that is the action's key."""
        return hashlib.sha256(self.messages[0]).hexdigest()


def place(project: str, task: str) -> Digest:
    """Return the key under which a cache keeps the hint."""
    text = f"ingot: the last action of a task\n{project}\n{task}".encode()
    return Digest(hashlib.sha256(text).hexdigest(), len(text))


def to_bytes(task: str, last: Last) -> bytes:
    """Return the hint as an `ActionResult` message."""
    told = results.encode_metadata(results.TASK_TYPE, task.encode())
    told += results.encode_metadata(TIME_TYPE, f"{last.at_s:.0f}".encode())
    return field(
        9, told + results.encode_metadata(results.MESSAGE_TYPE, *last.messages)
    )


def from_bytes(content: bytes, task: str) -> Last | None:
    """Return the hint of that task; None where the bytes are anything else."""
    with contextlib.suppress(CorruptMessage, ValueError):
        found = results.from_bytes(content)
        told = results.decode_metadata(Message(Message(content).bytes_at(9)))
        times = [float(value) for value in told.get(TIME_TYPE, ())]
        if found.task == task and times and found.messages:
            return Last(found.messages, times[0])
    return None
