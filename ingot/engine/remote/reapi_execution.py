"""Actions run by a server of Bazel's remote-execution API: a digest in, its end out.

An operation is followed to its end, whatever becomes of the connection: where that is
lost the operation is waited for anew, and asked for anew where it is forgotten.

Source: build.bazel.remote.execution.v2, remote_execution.proto; google.longrunning.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ingot.engine import reapi_pb2 as reapi
from ingot.engine.actions import Digest
from ingot.engine.cache import services_pb2 as api
from ingot.engine.cache.backend import CacheFailure, Timeouts, Unreachable
from ingot.engine.cache.grpc_channel import OPERATIONS, V2, Channel
from ingot.engine.cache.reapi_cache import message
from ingot.errors import IngotError

CONNECT_S = 10.0
CANCEL_S = 2.0

# Longer in the queue than this, it is worth a line.
QUEUED_S = 30.0

# How often an action is asked for that ends without a result.
N_TRIES = 4
PAUSE_S = 0.1

QUEUED = 2  # ExecutionStage.Value

# What another try may end otherwise: of an operation, and of a stream.
AGAIN = ("ABORTED", "CANCELLED", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE")
LOST = ("ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE")

# Of a WaitExecution: the server does not know the operation, or the question.
FORGOTTEN = ("NOT_FOUND", "UNIMPLEMENTED")

# In the subject of a violation: "blobs/<hash>/<size>".
BLOB = re.compile(r"blobs/([0-9a-f]{64})/[0-9]+")


@dataclass(frozen=True, slots=True)
class Ended:
    """How an operation ended: `code` is a name of google.rpc.Code."""

    code: str = "OK"
    text: str = ""
    result: reapi.ActionResult = field(default_factory=reapi.ActionResult)
    cached: bool = False  # it ran earlier
    missing: tuple[str, ...] = ()  # hashes of blobs that the server lacks
    tries: int = 1


class Execution:
    """The Execution service of an instance; safe for several threads."""

    def __init__(
        self, address: str, authorization: str | None, timeouts: Timeouts
    ) -> None:
        """Keep the place; nothing is sent yet."""
        self.name = address
        self._timeouts = timeouts
        self._channel = Channel(address, authorization)
        self._changed = threading.Condition()
        self._calls: dict[Any, str] = {}
        self._stopped = threading.Event()

    def refusal(self) -> str:
        """Return why nothing can be run there; "" where it can."""
        try:
            answer = self._channel.ask(
                f"{V2}.Capabilities/GetCapabilities",
                api.GetCapabilitiesRequest(instance_name=self._channel.instance),
                api.ServerCapabilities.FromString,
                CONNECT_S,
            )
        except CacheFailure as error:
            return str(error)
        enabled = answer.execution_capabilities.exec_enabled
        return "" if enabled else "it is a cache, and runs nothing"

    def run(
        self,
        action: Digest,
        skip_lookup: bool,
        lost: Callable[[], None],
        queued: Callable[[], None],
    ) -> Ended:
        """Return how the action ended; with `skip_lookup` no earlier end will do.

        `lost` is told that the server went away, `queued` that nobody takes the action.

        Raises: Unreachable where the server stays away; IngotError once stopped.
        """
        watch, tries = _Watch(time.monotonic()), 0
        while True:
            ended = self._follow(action, skip_lookup, watch, queued)
            if ended is None:
                lost()
                if time.monotonic() - watch.heard_s > self._timeouts.return_s:
                    raise Unreachable("no connection")
                self.wait(0.5)
                continue
            watch.operation, tries = "", tries + 1
            if ended.code not in AGAIN or tries == N_TRIES:
                return replace(ended, tries=tries)
            self.wait(PAUSE_S * 4**tries)

    def wait(self, seconds: float) -> None:
        """Wait so long.

        Raises: IngotError once stopped.
        """
        if self._stopped.wait(seconds):
            raise IngotError("stopped")

    def close(self) -> None:
        """Stop whatever is under way, here and there."""
        self._stopped.set()
        with self._changed:
            calls = dict(self._calls)
        cancels = [(call, self._cancel(name)) for call, name in calls.items() if name]
        for call, cancel in cancels:
            # Not every server can: then it ends there, and is kept.
            cancel.exception()
            call.cancel()
        # What has no name yet is cancelled as it gets one.
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, CANCEL_S)
            for call in self._calls:
                call.cancel()

    def _cancel(self, operation: str) -> Any:
        """Return the call, under way, that ends an operation there."""
        request = api.CancelOperationRequest(name=operation)
        return self._channel.tell(f"{OPERATIONS}/CancelOperation", request, CANCEL_S)

    def _follow(
        self,
        action: Digest,
        skip_lookup: bool,
        watch: _Watch,
        queued: Callable[[], None],
    ) -> Ended | None:
        """Return how the operation ended; None where the connection to it is lost."""
        import grpc

        self.wait(0)
        waits = bool(watch.operation)
        call = self._wait(watch.operation) if waits else self._ask(action, skip_lookup)
        timer = threading.Timer(QUEUED_S, queued)
        timer.daemon = True
        try:
            self._note(call, watch.operation)
            for operation in call:
                watch.heard_s, watch.operation = time.monotonic(), operation.name
                self._note(call, operation.name)
                if operation.done:
                    return _ended(operation)
                if _stage(operation) != QUEUED:
                    timer.cancel()
                elif timer.ident is None:
                    timer.start()
            return None
        except grpc.RpcError as error:
            self.wait(0)
            return _broken(error, waits)
        finally:
            timer.cancel()
            with self._changed:
                self._calls.pop(call, None)
                self._changed.notify_all()

    def _note(self, call: Any, operation: str) -> None:
        """Remember what to cancel.

        Raises: IngotError once stopped.
        """
        with self._changed:
            known = self._calls.get(call)
            self._calls[call] = operation
        if operation and not known and self._stopped.is_set():
            self._cancel(operation).exception()
            call.cancel()
            self.wait(0)

    def _ask(self, action: Digest, skip_lookup: bool) -> Any:
        request = api.ExecuteRequest(
            instance_name=self._channel.instance,
            skip_cache_lookup=skip_lookup,
            action_digest=message(action),
        )
        return self._channel.stream(
            f"{V2}.Execution/Execute", request, api.Operation.FromString
        )

    def _wait(self, operation: str) -> Any:
        request = api.WaitExecutionRequest(name=operation)
        return self._channel.stream(
            f"{V2}.Execution/WaitExecution", request, api.Operation.FromString
        )


@dataclass(slots=True)
class _Watch:
    """What is known of an operation: when it was heard of, and its name there."""

    heard_s: float
    operation: str = ""


def _stage(operation: Any) -> int:
    told = api.ExecuteOperationMetadata.FromString(operation.metadata.value)
    return int(told.stage)


def _ended(operation: Any) -> Ended:
    """Return how a finished operation ended."""
    if operation.HasField("error"):
        return _with_status(operation.error, Ended())
    answer = api.ExecuteResponse.FromString(operation.response.value)
    ended = Ended(
        text=answer.message, result=answer.result, cached=answer.cached_result
    )
    return _with_status(answer.status, ended)


def _broken(error: Any, waited: bool) -> Ended | None:
    """Return how it ended where the server said so; None where it is lost."""
    code = error.code().name
    if code in LOST:
        return None
    if waited and code in FORGOTTEN:
        return Ended("ABORTED", "the server has forgotten it")
    told = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    status = api.Status.FromString(told)
    return Ended(code, error.details() or "", missing=_missing(status))


def _with_status(status: Any, ended: Ended) -> Ended:
    import grpc

    names = {code.value[0]: code.name for code in grpc.StatusCode}
    return replace(
        ended,
        code=names.get(status.code, "UNKNOWN"),
        text=status.message or ended.text,
        missing=_missing(status),
    )


def _missing(status: Any) -> tuple[str, ...]:
    """Return the hashes of the blobs that a failed precondition names."""
    found = []
    for detail in status.details:
        if detail.type_url.endswith("google.rpc.PreconditionFailure"):
            told = api.PreconditionFailure.FromString(detail.value)
            for violation in told.violations:
                blob = BLOB.search(violation.subject)
                if violation.type == "MISSING" and blob:
                    found.append(blob[1])
    return tuple(found)
