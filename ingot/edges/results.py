"""Action results as messages: what `ac/` holds in, values out, and back.

An `ActionResult` of Bazel's remote-execution API, so that Bazel and cache servers read
it too. Protobuf is imported late: a build with nothing to do needs none of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ingot.values import ActionResult, BoundAction, Digest

if TYPE_CHECKING:
    from collections.abc import Callable

    from ingot import reapi_pb2 as reapi

# What says for which task an action ran; other programs skip what they do not know.
TASK_TYPE = "ingot/task"


# What names a file of the store; anything else could name one outside of it.
HASH = re.compile(r"[0-9a-f]{64}")


class Damaged(ValueError):
    """The bytes are no message of the kind that is expected."""


def to_bytes(result: ActionResult) -> bytes:
    """Return the result as an `ActionResult` message."""
    from ingot import reapi_pb2 as reapi

    message = reapi.ActionResult(
        output_files=[
            reapi.OutputFile(
                path=path,
                digest=reapi.Digest(hash=digest.hash, size_bytes=digest.size_bytes),
            )
            for path, digest in result.outputs
        ],
        exit_code=result.exit_code,
    )
    if result.log is not None:
        message.stdout_digest.hash = result.log.hash
        message.stdout_digest.size_bytes = result.log.size_bytes
    if result.task:
        told = message.execution_metadata
        told.auxiliary_metadata.add(type_url=TASK_TYPE, value=result.task.encode())
        seconds, milliseconds = divmod(result.wall_ms, 1e3)
        told.virtual_execution_duration.seconds = int(seconds)
        told.virtual_execution_duration.nanos = int(milliseconds * 1e6)
    content: bytes = message.SerializeToString(deterministic=True)
    return content


def from_bytes(content: bytes) -> ActionResult:
    """Return the result that the message says.

    Raises: Damaged where it is none.
    """
    from ingot import reapi_pb2 as reapi

    message = _parse(reapi.ActionResult, content)
    log = message.stdout_digest
    told = message.execution_metadata
    tasks = [
        item.value.decode(errors="replace")
        for item in told.auxiliary_metadata
        if item.type_url == TASK_TYPE
    ]
    ran = told.virtual_execution_duration
    return ActionResult(
        outputs=tuple(
            (file.path, _digest(file.digest)) for file in message.output_files
        ),
        exit_code=message.exit_code,
        log=_digest(log) if log.hash else None,
        task=tasks[0] if tasks else "",
        wall_ms=ran.seconds * 1e3 + ran.nanos / 1e6,
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


def _parse(kind: type[reapi.ActionResult], content: bytes) -> reapi.ActionResult:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise Damaged(str(error)) from error


def _digest(message: reapi.Digest) -> Digest:
    return told(message.hash, message.size_bytes)
