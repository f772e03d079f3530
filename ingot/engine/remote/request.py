"""Define what a build asks of a worker, and what the worker responds.

Both are values written as JSON. Contents never travel this way, only their digests: the
contents are in the shared cache.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from ingot.codec import from_plain
from ingot.engine.action_results import checked_digest
from ingot.engine.actions import (
    NO_LIMITS,
    Action,
    ActionResult,
    Digest,
    Limits,
    Output,
    ResolvedAction,
)
from ingot.engine.protobuf_wire import CorruptMessage

# Bumped when the meaning of a request changes: older workers then reject it.
VERSION = 7

# Tools that only some machines have, and the label of a worker that has them.
LABELS = {"qemu-aarch64": "qemu-aarch64", "mesa-llvmpipe": "vulkan"}
BENCH = "bench"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """An action for a worker to run."""

    task: str
    resolved: ResolvedAction
    tools: tuple[str, ...]
    exclusive: bool
    limits: Limits = NO_LIMITS
    store: str = ""  # identity of the store that waits for the result
    # Outputs of an earlier run did not arrive: upload all of them again.
    again: bool = False
    version: int = VERSION

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels that a worker must have to run it."""
        found = [LABELS[tool] for tool in self.tools if tool in LABELS]
        return (*found, BENCH) if self.exclusive else tuple(found)

    @property
    def memory_bytes(self) -> int:
        """Return how much of its worker's memory it may need.

        The compiler takes 1 GB for a large model; a check holds the weights twice, as
        they are stored and, one layer at a time, as float64.
        """
        inputs = self.resolved.inputs
        return (1 << 30) + 2 * sum(digest.size_bytes for _, digest in inputs)

    def action(self) -> Action:
        """Return the action; its inputs are contents, wherever they come from."""
        return Action(
            task=self.task,
            argv=self.resolved.argv,
            inputs=tuple((path, Output("", path)) for path, _ in self.resolved.inputs),
            outputs=self.resolved.outputs,
            tools=self.tools,
            env=self.resolved.env,
            platform=self.resolved.platform,
            exclusive=self.exclusive,
            limits=self.limits,
        )


@dataclass(frozen=True, slots=True)
class WorkResponse:
    """How the action ended on a worker: with outputs, or why there are none."""

    worker: str  # its host and process
    outputs: tuple[tuple[str, Digest], ...] | None = None
    wall_ms: float = 0.0
    # What the command printed; if it failed, its exit code and what it did not write.
    log: Digest | None = None
    signature: str = ""  # the envelope of its key, as in a result
    exit_code: int = 0
    missing_outputs: tuple[str, ...] = ()
    # Inputs that the shared cache lacks or has corrupt.
    missing_inputs: tuple[Digest, ...] = ()
    rejection: str = ""  # why this worker cannot run it
    remedy: str = ""  # what to do about the rejection
    version: int = VERSION

    def result(self, task: str) -> ActionResult | None:
        """Return the task's result; None if the response has no outputs."""
        if self.outputs is None:
            return None
        return ActionResult(
            outputs=self.outputs,
            log=self.log,
            task=task,
            wall_ms=self.wall_ms,
            signature=self.signature.encode(),
        )


def decode_request(text: str) -> WorkRequest:
    """Return the request.

    Raises: CorruptMessage if it is none, or another version of ingot wrote it.
    """
    request = _decode(WorkRequest, "request", text)
    _check(digest for _, digest in request.resolved.inputs)
    return request


def decode_response(text: str) -> WorkResponse:
    """Return the response.

    Raises: CorruptMessage if it is none, or another version of ingot wrote it.
    """
    response = _decode(WorkResponse, "response", text)
    _check(digest for _, digest in response.outputs or ())
    _check(response.missing_inputs)
    _check(() if response.log is None else (response.log,))
    return response


def _decode(kind: type[T], noun: str, text: str) -> T:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CorruptMessage(f"it is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise CorruptMessage("it is not a mapping")
    if value.get("version") != VERSION:
        raise CorruptMessage(f"the {noun} is from another version of ingot")
    try:
        return from_plain(kind, value)
    except ValueError as error:
        raise CorruptMessage(str(error)) from error


def _check(digests: Iterable[Digest]) -> None:
    """Raise CorruptMessage for a hash that is none: it becomes part of a path."""
    for digest in digests:
        checked_digest(digest.hash, digest.size_bytes)
