"""Leave a hint in the shared cache: the action that a task was last built as.

`doit why` on another machine reads it to show what differs; no build does. A hint looks
like any other action result, so every cache server stores it. Its key is derived from
the project and the task, and it carries the messages of the action. The next build of
the task overwrites it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from ingot.engine.action_results import (
    MESSAGE_TYPE,
    SIGNATURE_TYPE,
    TASK_TYPE,
    decode_metadata,
    decode_result,
    encode_metadata,
)
from ingot.engine.actions import Digest, digest_of
from ingot.engine.protobuf_wire import CorruptMessage, Message, field
from ingot.engine.signed_statements import HintStatement

# Metadata: when the task was built, in seconds since 1970. Other programs skip it.
TIME_TYPE = "ingot/built-at"

# Later than this is no time: the calendar of the C library ends somewhere behind it.
LAST_S = 1 << 40


@dataclass(frozen=True, slots=True)
class BuildHint:
    """The action that a task was last built as: its messages, its own first."""

    messages: tuple[bytes, ...]
    at_s: float
    signature: bytes = b""

    def statement(self, project: str, task: str) -> HintStatement:
        """Return what the hint's signature says."""
        return HintStatement(project, task, self.key, round(self.at_s))

    @property
    def key(self) -> str:
        """Return the hash that is the action's key."""
        return digest_of(self.messages[0]).hash


def hint_key(project: str, task: str) -> Digest:
    """Return the key under which a cache stores the task's hint."""
    return digest_of(f"ingot: the last action of a task\n{project}\n{task}".encode())


def encode_hint(task: str, hint: BuildHint) -> bytes:
    """Return the hint as an `ActionResult` message."""
    metadata = encode_metadata(TASK_TYPE, task.encode())
    metadata += encode_metadata(TIME_TYPE, f"{hint.at_s:.0f}".encode())
    metadata += encode_metadata(MESSAGE_TYPE, *hint.messages)
    if hint.signature:
        metadata += encode_metadata(SIGNATURE_TYPE, hint.signature)
    return field(9, metadata)


def decode_hint(content: bytes, task: str) -> BuildHint | None:
    """Return the hint of that task; None if the bytes are anything else."""
    with contextlib.suppress(CorruptMessage, ValueError):
        found = decode_result(content)
        values = decode_metadata(Message(Message(content).bytes_at(9)))
        times = [int(value) for value in values.get(TIME_TYPE, ())]
        known = times and 0 <= times[0] < LAST_S
        if found.task == task and known and found.messages:
            return BuildHint(found.messages, times[0], found.signature)
    return None
