"""Action results as messages: what `ac/` holds in, values out, and back.

An `ActionResult` of Bazel's remote-execution API, so that Bazel and cache servers read
it too. Protobuf is imported late: only `doit why` needs it, as `ingot.keys` says.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ingot.edges.message import Damaged, Message
from ingot.keys import digest_message, field, number, text
from ingot.values import ActionResult, BoundAction, Digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingot import reapi_pb2 as reapi

# What says for which task an action ran; other programs skip what they do not know.
TASK_TYPE = "ingot/task"


# What names a file of the store; anything else could name one outside of it.
HASH = re.compile(r"[0-9a-f]{64}")


def to_bytes(result: ActionResult) -> bytes:
    """Return the result as an `ActionResult` message."""
    content = b"".join(
        [
            field(2, text(1, path) + field(2, digest_message(digest)))
            for path, digest in result.outputs
        ]
    )
    content += number(4, result.exit_code)
    if result.log is not None:
        content += field(6, digest_message(result.log))
    if result.task:
        seconds, milliseconds = divmod(result.wall_ms, 1e3)
        took = number(1, int(seconds)) + number(2, int(milliseconds * 1e6))
        name = text(1, TASK_TYPE) + field(2, result.task.encode())
        content += field(9, field(11, name) + field(12, took))
    return content


def from_bytes(content: bytes) -> ActionResult:
    """Return the result that the message says.

    Raises: Damaged where it is none.
    """
    message = Message(content)
    told = Message(message.bytes_at(9))
    names = [Message(item) for item in told.all_at(11)]
    tasks = [name.bytes_at(2) for name in names if name.text_at(1) == TASK_TYPE]
    took = Message(told.bytes_at(12))
    files = [Message(item) for item in message.all_at(2)]
    log = Message(message.bytes_at(6))
    return ActionResult(
        outputs=tuple([(file.text_at(1), _told(file.bytes_at(2))) for file in files]),
        exit_code=message.number_at(4, 32),
        log=_told(message.bytes_at(6)) if log.text_at(1) else None,
        task=tasks[0].decode(errors="replace") if tasks else "",
        wall_ms=took.number_at(1, 64) * 1e3 + took.number_at(2, 32) / 1e6,
    )


def spelt_out(key: str, read: Callable[[str], bytes]) -> tuple[BoundAction, set[str]]:
    """Return the action of that key, and the hashes of all messages that it is made of.

    `read` returns a blob by its hash.

    Raises: OSError where a message is not there; Damaged where it is none.
    """
    from ingot import reapi_pb2 as reapi

    action = _parse(reapi.Action, read(key))
    command_digest = _digest(action.command_digest)
    command = _parse(reapi.Command, read(command_digest.hash))
    hashes = {key, command_digest.hash}
    inputs: list[tuple[str, Digest]] = []
    pending = [("", _digest(action.input_root_digest).hash)]
    while pending:
        prefix, name = pending.pop()
        hashes.add(name)
        directory = _parse(reapi.Directory, read(name))
        inputs += [
            (prefix + file.name, _digest(file.digest)) for file in directory.files
        ]
        pending += [
            (f"{prefix}{item.name}/", _digest(item.digest).hash)
            for item in directory.directories
        ]
    bound = BoundAction(
        argv=tuple(command.arguments),
        env=tuple((item.name, item.value) for item in command.environment_variables),
        inputs=tuple(sorted(inputs)),
        outputs=tuple(command.output_paths),
        platform=tuple((item.name, item.value) for item in action.platform.properties),
    )
    return bound, hashes


def told(hash: str, size_bytes: int) -> Digest:
    """Return the digest that a file, a cache or another machine tells.

    Raises: Damaged where it is none: its hash becomes part of a path.
    """
    if HASH.fullmatch(hash) is None or size_bytes < 0:
        raise Damaged(f"no digest: '{hash[:80]}', {size_bytes} bytes")
    return Digest(hash, size_bytes)


def _told(content: bytes) -> Digest:
    message = Message(content)
    return told(message.text_at(1), message.number_at(2, 64))


def _parse(kind: type[reapi.Action], content: bytes) -> reapi.Action:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise Damaged(str(error)) from error


def _digest(message: reapi.Digest) -> Digest:
    return told(message.hash, message.size_bytes)
