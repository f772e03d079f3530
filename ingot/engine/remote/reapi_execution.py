"""Run an action on a server of Bazel's remote-execution API and return how it ended.

An operation is followed to its end even if the connection is lost: the client then
waits for the operation again, and starts the action again if the server has forgotten
it.

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

# Report an action that is queued for longer.
QUEUED_S = 30.0

# How often to start an action that ends without a result.
N_TRIES = 4
PAUSE_S = 0.1

QUEUED = 2  # ExecutionStage.Value

# Statuses of an operation, and of a stream, after which to try again.
AGAIN = ("ABORTED", "CANCELLED", "INTERNAL", "RESOURCE_EXHAUSTED", "UNAVAILABLE")
LOST = ("ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE")

# Statuses of a WaitExecution whose server does not know the operation or the method.
FORGOTTEN = ("NOT_FOUND", "UNIMPLEMENTED")

# Found in the subject of a violation: "blobs/<hash>/<size>".
BLOB = re.compile(r"blobs/([0-9a-f]{64})/[0-9]+")


@dataclass(frozen=True, slots=True)
class OperationEnd:
    """How an operation ended; `code` is a name of google.rpc.Code."""

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
        """Remember the address; send nothing yet."""
        self.name = address
        self._timeouts = timeouts
        self._channel = Channel(address, authorization)
        self._changed = threading.Condition()
        self._calls: dict[Any, str] = {}
        self._stopped = threading.Event()

    def why_not(self) -> str:
        """Return why the server cannot run anything; "" if it can."""
        try:
            response = self._channel.ask(
                f"{V2}.Capabilities/GetCapabilities",
                api.GetCapabilitiesRequest(instance_name=self._channel.instance),
                api.ServerCapabilities.FromString,
                CONNECT_S,
            )
        except CacheFailure as error:
            return str(error)
        enabled = response.execution_capabilities.exec_enabled
        return "" if enabled else "it is a cache without execution"

    def run(
        self,
        action: Digest,
        skip_lookup: bool,
        lost: Callable[[], None],
        queued: Callable[[], None],
    ) -> OperationEnd:
        """Return how the action ended; with `skip_lookup`, always run it.

        `lost` is called when the server goes away, `queued` when the action waits for a
        worker.

        Raises: Unreachable if the server stays away; IngotError once stopped.
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
        """Wait for so many seconds.

        Raises: IngotError once stopped.
        """
        if self._stopped.wait(seconds):
            raise IngotError("stopped")

    def close(self) -> None:
        """Stop everything that is under way, on this side and on the server."""
        self._stopped.set()
        with self._changed:
            calls = dict(self._calls)
        cancels = [(call, self._cancel(name)) for call, name in calls.items() if name]
        for call, cancel in cancels:
            # Not every server can cancel: then the action finishes there and is cached.
            cancel.exception()
            call.cancel()
        # Calls without an operation name are cancelled when they get one.
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, CANCEL_S)
            for call in self._calls:
                call.cancel()

    def _cancel(self, operation: str) -> Any:
        """Start the call that cancels an operation on the server; return it."""
        request = api.CancelOperationRequest(name=operation)
        return self._channel.start(f"{OPERATIONS}/CancelOperation", request, CANCEL_S)

    def _follow(
        self,
        action: Digest,
        skip_lookup: bool,
        watch: _Watch,
        queued: Callable[[], None],
    ) -> OperationEnd | None:
        """Return how the operation ended; None if the connection to it is lost."""
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
                    # Once stopped, it ended because the server killed its worker.
                    self.wait(0)
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
        """Remember the operation of a call, to cancel it later.

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
    """What is known about an operation: when it last reported, and its name."""

    heard_s: float
    operation: str = ""


def _stage(operation: Any) -> int:
    metadata = api.ExecuteOperationMetadata.FromString(operation.metadata.value)
    return int(metadata.stage)


def _ended(operation: Any) -> OperationEnd:
    """Return how a finished operation ended."""
    if operation.HasField("error"):
        return _with_status(operation.error, OperationEnd())
    response = api.ExecuteResponse.FromString(operation.response.value)
    ended = OperationEnd(
        text=response.message, result=response.result, cached=response.cached_result
    )
    return _with_status(response.status, ended)


def _broken(error: Any, waited: bool) -> OperationEnd | None:
    """Return the end that the server reported; None if the connection is lost."""
    code = error.code().name
    if code in LOST:
        return None
    if waited and code in FORGOTTEN:
        return OperationEnd(
            "ABORTED", "the server does not know the operation any more"
        )
    trailing = dict(error.trailing_metadata() or ())
    status = api.Status.FromString(trailing.get("grpc-status-details-bin", b""))
    return OperationEnd(code, error.details() or "", missing=_missing(status))


def _with_status(status: Any, ended: OperationEnd) -> OperationEnd:
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
            failure = api.PreconditionFailure.FromString(detail.value)
            for violation in failure.violations:
                blob = BLOB.search(violation.subject)
                if violation.type == "MISSING" and blob:
                    found.append(blob[1])
    return tuple(found)
