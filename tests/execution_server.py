"""Serve Bazel's remote-execution API, run its actions, and fail on demand.

Written from the protocol: an action is what its messages say and nothing else, in a
folder of its own, with its own variables; what the server is not sent it does not have.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest

from ingot.engine import reapi_pb2 as reapi
from ingot.engine.actions import Action
from ingot.engine.cache import services_pb2 as api
from ingot.engine.cache.backend import Timeouts
from ingot.engine.remote.reapi_client import open_server
from ingot.errors import IngotError
from tests.cache_server import Machine
from tests.reapi_server import V2, Method, ReapiServer, listening
from tests.small_actions import UPPER

QUEUED, EXECUTING, COMPLETED = 2, 3, 4

# Endings that a fault gives to every operation, and what the server says.
ENDINGS = {
    "its workers die": (10, "the worker died"),
    "time limit": (4, ""),
    "refuses": (3, "no queue for it"),
}


@dataclass
class Operation:
    """One action under way."""

    name: str
    stage: int = QUEUED
    answer: Any = None
    process: subprocess.Popen[bytes] | None = None
    changed: threading.Condition = field(default_factory=threading.Condition)

    def message(self) -> Any:
        metadata = api.ExecuteOperationMetadata(stage=self.stage)
        told = api.Operation(name=self.name, done=self.answer is not None)
        told.metadata.value = metadata.SerializeToString()
        if self.answer is not None:
            told.response.value = self.answer.SerializeToString()
        return told

    def end(self, answer: Any) -> None:
        with self.changed:
            self.stage, self.answer = COMPLETED, answer
            self.changed.notify_all()


class ExecutionServer(ReapiServer):
    """A cache whose actions it runs itself; `fault` says what goes wrong."""

    def __init__(self) -> None:
        super().__init__(packs=True)
        self.fault = ""
        self.environment: dict[str, str] = {}  # of its workers
        self.loses: list[str] = []  # blobs, at the next question
        self.password = ""
        self.runs_actions = True
        self.asked: Counter[str] = Counter()
        self.properties: list[dict[str, str]] = []
        self.operations: dict[str, Operation] = {}
        self.cancelled: list[str] = []

    def methods(self) -> tuple[Method, ...]:
        execution, operations = f"{V2}.Execution", "google.longrunning.Operations"
        return (
            *super().methods(),
            (execution, "Execute", api.ExecuteRequest, "unary_stream"),
            (execution, "WaitExecution", api.WaitExecutionRequest, "unary_stream"),
            (operations, "CancelOperation", api.CancelOperationRequest, "unary_unary"),
        )

    def get_capabilities(self, request: Any, context: Any) -> Any:
        sent = dict(context.invocation_metadata()).get("authorization", "")
        if sent != self.password:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you")
        told = super().get_capabilities(request, context)
        told.execution_capabilities.exec_enabled = self.runs_actions
        return told

    def update_action_result(self, request: Any, context: Any) -> bytes:
        if self.fault == "keeps no results":
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "workers only")
        return super().update_action_result(request, context)

    def execute(self, request: Any, context: Any) -> Iterator[Any]:
        self.asked["Execute"] += 1
        for name in self.loses:
            del self.blobs[name]
        self.loses.clear()
        key = request.action_digest.hash
        if key in self.results and not request.skip_cache_lookup:
            kept = reapi.ActionResult.FromString(self.results[key])
            operation = Operation("kept")
            operation.end(api.ExecuteResponse(result=kept, cached_result=True))
            yield operation.message()
            return
        operation = Operation(f"operation-{len(self.operations)}")
        self.operations[operation.name] = operation
        threading.Thread(target=self.work, args=(operation, key), daemon=True).start()
        yield from self.follow(operation, context)

    def wait_execution(self, request: Any, context: Any) -> Iterator[Any]:
        self.asked["WaitExecution"] += 1
        operation = self.operations.get(request.name)
        if operation is None or self.fault == "forgets":
            self.fault = ""
            context.abort(grpc.StatusCode.NOT_FOUND, "no such operation")
        assert operation is not None
        yield from self.follow(operation, context)

    def follow(self, operation: Operation, context: Any) -> Iterator[Any]:
        yield operation.message()
        if self.fault in ("breaks off", "forgets"):
            if self.fault == "breaks off":
                self.fault = ""
            context.abort(grpc.StatusCode.UNAVAILABLE, "as the test wants")
        with operation.changed:
            while operation.answer is None and context.is_active():
                operation.changed.wait(0.05)
        yield operation.message()

    def cancel_operation(self, request: Any, context: Any) -> bytes:
        self.cancelled.append(request.name)
        operation = self.operations[request.name]
        if operation.process is not None:
            os.killpg(operation.process.pid, signal.SIGKILL)
        operation.end(failed(1, "cancelled"))
        return b""

    def work(self, operation: Operation, key: str) -> None:
        """Run the action, or have it end as the test wants."""
        if self.fault in ENDINGS:
            operation.end(failed(*ENDINGS[self.fault]))
            return
        missing = self.lacking(key)
        if missing and self.fault == "names nothing":
            operation.end(failed(5, "blob not found"))
            return
        if missing:
            operation.end(failed(9, "blobs are missing", missing))
            return
        action = reapi.Action.FromString(self.blobs[key])
        wanted = {item.name: item.value for item in action.platform.properties}
        self.properties.append(wanted)
        if self.fault == "takes none":
            return
        operation.stage = EXECUTING
        result = self.ran(action, operation)
        if self.fault != "keeps no failures":
            self.results[key] = result.SerializeToString()
        operation.end(api.ExecuteResponse(result=result))

    def ran(self, action: Any, operation: Operation) -> Any:
        command = reapi.Command.FromString(self.blobs[action.command_digest.hash])
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.lay_out(action.input_root_digest.hash, folder)
            for path in command.output_paths:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
            try:
                operation.process = subprocess.Popen(
                    list(command.arguments),
                    cwd=folder,
                    env=self.environment
                    | {v.name: v.value for v in command.environment_variables},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                return reapi.ActionResult(exit_code=127, stdout_raw=str(error).encode())
            printed, _ = operation.process.communicate()
            return reapi.ActionResult(
                exit_code=operation.process.returncode,
                stdout_raw=printed,
                output_files=[
                    reapi.OutputFile(path=path, digest=self.keep(folder / path))
                    for path in command.output_paths
                    if (folder / path).is_file()
                ],
            )

    def keep(self, path: Path) -> Any:
        content = path.read_bytes()
        name = hashlib.sha256(content).hexdigest()
        self.blobs[name] = content
        return reapi.Digest(hash=name, size_bytes=len(content))

    def lay_out(self, name: str, folder: Path) -> None:
        directory = reapi.Directory.FromString(self.blobs[name])
        folder.mkdir(exist_ok=True)
        for file in directory.files:
            (folder / file.name).write_bytes(self.blobs[file.digest.hash])
        for child in directory.directories:
            self.lay_out(child.digest.hash, folder / child.name)

    def lacking(self, key: str) -> list[Any]:
        """Every blob of the action that was not sent."""
        if key not in self.blobs:
            return [reapi.Digest(hash=key)]
        action = reapi.Action.FromString(self.blobs[key])
        needed, pending = [action.command_digest], [action.input_root_digest]
        while pending:
            digest = pending.pop()
            needed.append(digest)
            if digest.hash in self.blobs:
                directory = reapi.Directory.FromString(self.blobs[digest.hash])
                needed += [file.digest for file in directory.files]
                pending += [child.digest for child in directory.directories]
        return [digest for digest in needed if digest.hash not in self.blobs]


def failed(code: int, text: str, missing: list[Any] | None = None) -> Any:
    """The answer of an operation that ended without a result."""
    status = api.Status(code=code, message=text)
    if missing:
        told = api.PreconditionFailure()
        for digest in missing:
            subject = f"blobs/{digest.hash}/{digest.size_bytes}"
            told.violations.add(type="MISSING", subject=subject)
        status.details.add(
            type_url="type.googleapis.com/google.rpc.PreconditionFailure",
            value=told.SerializeToString(),
        )
    return api.ExecuteResponse(status=status)


@contextmanager
def running_actions() -> Iterator[ExecutionServer]:
    """Yield a server that runs until the block ends."""
    server = ExecutionServer()
    with listening(server):
        yield server


def machine(
    root: Path, server: ExecutionServer, query: str = "", return_s: float = 60.0
) -> Machine:
    """A machine that has its actions run by the server."""
    timeouts = Timeouts(return_s=return_s)
    made = Machine(root, server.address, timeouts=timeouts)
    assert made.shared is not None
    place, told = f"{server.address}{query}", made.reported.append
    remote = open_server(place, made.shared, made.store, {}, told, timeouts)
    made.executor._remote = remote
    return made


def refused(made: Machine, action: Action = UPPER) -> str:
    """What a build that fails says."""
    with pytest.raises(IngotError) as caught:
        made.build(action)
    return str(caught.value)
