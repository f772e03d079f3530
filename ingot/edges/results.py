"""Action results as messages: what `ac/` holds in, values out, and back.

An `ActionResult` of Bazel's remote-execution API, so that Bazel and cache servers read
it too. Protobuf is imported late: a build with nothing to do needs none of it.
"""

from __future__ import annotations

from ingot.values import ActionResult, Digest


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
    content: bytes = message.SerializeToString(deterministic=True)
    return content


def from_bytes(content: bytes) -> ActionResult:
    """Return the result that the message says.

    Raises: Damaged where it is none.
    """
    from google.protobuf.message import DecodeError

    from ingot import reapi_pb2 as reapi

    try:
        message = reapi.ActionResult.FromString(content)
    except DecodeError as error:
        raise Damaged(str(error)) from error
    log = message.stdout_digest
    return ActionResult(
        outputs=tuple(
            (file.path, Digest(file.digest.hash, file.digest.size_bytes))
            for file in message.output_files
        ),
        exit_code=message.exit_code,
        log=Digest(log.hash, log.size_bytes) if log.hash else None,
    )
