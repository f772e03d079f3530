"""Run actions on the workers of a server of Bazel's remote-execution API.

A request becomes an action (see `reapi_worker`) whose messages and inputs are in
the server's cache. The result is also published under the action's own key, where every
build finds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

from ingot.engine import reapi_pb2 as reapi
from ingot.engine.action_keys import encode_action
from ingot.engine.action_results import checked_digest
from ingot.engine.actions import Digest
from ingot.engine.cache.backend import CacheFailure, Timeouts, Unreachable
from ingot.engine.cache.cache_address import authorization
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.remote.reapi_execution import AGAIN, Execution, OperationEnd
from ingot.engine.remote.reapi_worker import (
    LOG,
    OUTPUTS,
    REQUEST,
    RESPONSE,
    worker_action,
)
from ingot.engine.remote.remote_executor import RemoteExecutor
from ingot.engine.remote.request import WorkRequest, WorkResponse, decode_response
from ingot.engine.store import Store
from ingot.errors import IngotError

EXPECTED = "expected grpc://HOST:PORT/INSTANCE?PROPERTY=VALUE&..."

HERE = "run it on this machine: the same command without executor="

# How often messages are uploaded that the server does not find.
N_SENT = 3

# Status codes of a server that lacks a blob. NOT_FOUND comes from a worker that does
# not find one, and names it in free text at best.
LACKS = ("FAILED_PRECONDITION", "NOT_FOUND")


def open_server(
    address: str,
    shared: SharedCache,
    store: Store,
    environment: Mapping[str, str],
    warn: Callable[[str], None],
    timeouts: Timeouts | None = None,
) -> RemoteExecutor:
    """Return the executor of a server; after `?` come properties for its actions.

    Raises: IngotError if the address is wrong, or the server runs nothing.
    """
    try:
        parts = urlsplit(address)
        pairs = parse_qsl(parts.query, True, strict_parsing=True) if parts.query else []
    except ValueError:
        parts, pairs = urlsplit(""), []
    if not parts.hostname or parts.username is not None:
        raise IngotError(
            f"executor={parts.scheme}: not a server's address; {EXPECTED}",
            "a password comes from ~/.netrc or INGOT_SHARED_CACHE_TOKEN",
        )
    shown = parts._replace(query="", fragment="").geturl()
    execution = Execution(
        shown, authorization(shown, environment), timeouts or Timeouts()
    )
    problem = execution.why_not()
    if problem:
        raise IngotError(
            f"executor={shown}: nothing can be run there: {problem}",
            "docs/sharing.md lists what it needs; a password comes from ~/.netrc or"
            " INGOT_SHARED_CACHE_TOKEN",
        )
    workers = ReapiWorkers(execution, tuple(pairs), shared, store, warn)
    return RemoteExecutor(workers, workers.shared, store)


class ReapiWorkers:
    """The workers of one server; safe for several threads."""

    def __init__(
        self,
        execution: Execution,
        properties: tuple[tuple[str, str], ...],
        shared: SharedCache,
        store: Store,
        warn: Callable[[str], None],
    ) -> None:
        """Use the server's Execution service; `properties` go with every action."""
        self.address = execution.name
        self._execution = execution
        self._properties = properties
        self.shared = shared.with_retries(self.lost, execution.wait)
        self._store = store
        self._warn = warn
        self._warned: set[str] = set()
        # Set once the server has lost a blob: from then on upload everything.
        self._again = False

    def remedy(self, cache: str) -> str:
        """Return what to do if workers do not see what this machine uploads."""
        return f"let the server's workers read {cache}, or unset INGOT_SHARED_CACHE"

    def lost(self) -> None:
        """Report that the server went away."""
        self._warn_once("lost", "the connection to the server is lost; waiting for it")

    def run(self, request: WorkRequest, name: str) -> WorkResponse:
        """Return a worker's response; publish a result under the action's key.

        Raises: IngotError if no worker can run it, CacheFailure if the cache
        fails.
        """
        ended, lookup = OperationEnd(), True
        for _ in range(N_SENT):
            action = self._send(request)
            ended = self._ended(request, action, not lookup)
            if ended.code != "OK":
                self._again = True
                missing = _inputs(request, ended)
                if missing:
                    return WorkResponse(self.address, missing_inputs=missing)
                continue
            # Run an earlier failure again: its cause may be gone.
            if lookup and ended.cached and ended.result.exit_code != 0:
                lookup = False
                continue
            response = self._response(request, ended.result)
            if response is not None:
                self._publish(request, response)
                return response
            lookup = False
        found = ended.text or "the worker's outputs are not in the shared cache"
        raise IngotError(f"{request.task}: {self.address}: {found}", HERE)

    def close(self) -> None:
        """Stop what is under way on the server."""
        self._execution.close()

    def _send(self, request: WorkRequest) -> Digest:
        """Upload the messages of the action that a worker runs; return its digest."""
        action, content = worker_action(request, self._properties)
        encoded = encode_action(action)
        blobs = {**dict(encoded.blobs), dict(action.inputs)[REQUEST]: content}
        with self._store.scratch() as folder:
            files = {digest: folder / digest.hash for digest in blobs}
            for digest, path in files.items():
                path.write_bytes(blobs[digest])
            self.shared.send(files, again=self._again)
        return encoded.key

    def _ended(
        self, request: WorkRequest, action: Digest, skip_lookup: bool
    ) -> OperationEnd:
        """Return how the operation ended: with a result, or because a blob is missing.

        Raises: IngotError if it ended in another way.
        """

        def queued() -> None:
            workers = "no worker"
            if request.labels:
                workers += " labelled " + " and ".join(f"'{x}'" for x in request.labels)
            if self._properties:
                workers += " with " + ", ".join(
                    "=".join(pair) for pair in self._properties
                )
            self._warn_once(
                workers, f"{workers} has taken {request.task} yet; it waits"
            )

        try:
            ended = self._execution.run(action, skip_lookup, self.lost, queued)
        except Unreachable as error:
            raise IngotError(
                f"{request.task}: {self.address}: the server no longer responds",
                "run the same command again once it does; finished actions are cached",
            ) from error
        if ended.code in ("OK", *LACKS):
            return ended
        words = f"{ended.code}: {ended.text}" if ended.text else ended.code
        if ended.code in AGAIN:
            raise IngotError(
                f"{request.task}: {self.address} started it {ended.tries} times without"
                f" a result; the last time: {words}",
                HERE,
            )
        if ended.code == "DEADLINE_EXCEEDED":
            raise IngotError(
                f"{request.task}: {self.address} stopped it at the server's time limit",
                f"raise that limit, or {HERE}",
            )
        raise IngotError(f"{request.task}: {self.address} rejected it: {words}", HERE)

    def _response(
        self, request: WorkRequest, result: reapi.ActionResult
    ) -> WorkResponse | None:
        """Return the worker's response; None if it is no longer in the cache.

        Raises: IngotError if ingot did not run on the worker.
        """
        files = {
            file.path: checked_digest(file.digest.hash, file.digest.size_bytes)
            for file in result.output_files
        }
        log = files.get(LOG)
        if RESPONSE not in files or log is None:
            raise IngotError(
                f"{request.task}: {self.address}: ingot does not start on its worker,"
                f" exit code {result.exit_code}\n{self._printed(result)}".rstrip(),
                f"workers need this environment at the same path: {sys.prefix}",
            )
        if not all(map(self.shared.ensure_local, files.values())):
            return None
        text = self._store.blob(files[RESPONSE]).read_text(encoding="utf-8")
        response = replace(decode_response(text), log=log)
        if response.outputs is None:
            return response
        produced = {
            path: files.get(f"{OUTPUTS}/{path}") for path in request.resolved.outputs
        }
        outputs = tuple((path, digest) for path, digest in produced.items() if digest)
        missing = tuple(path for path, digest in produced.items() if digest is None)
        if missing:
            return replace(response, outputs=None, missing_outputs=missing)
        return replace(response, outputs=outputs)

    def _printed(self, result: reapi.ActionResult) -> str:
        """Return what the program printed if it wrote no response."""
        found: bytes = result.stdout_raw + result.stderr_raw
        for message in (result.stdout_digest, result.stderr_digest):
            if message.hash:
                digest = checked_digest(message.hash, message.size_bytes)
                if self.shared.ensure_local(digest):
                    found += self._store.blob(digest).read_bytes()
        return found.decode(errors="replace").strip()

    def _publish(self, request: WorkRequest, response: WorkResponse) -> None:
        """Publish a result under the action's own key."""
        result = response.result(request.task)
        if result is None:
            return
        encoded = encode_action(request.resolved)
        result = replace(result, messages=encoded.messages)
        self._store.put_action(encoded.key, result)
        try:
            self.shared.publish(encoded.key, result.blobs(), request.again)
        except CacheFailure as error:
            self._warn_once("publish", f"cannot share results with others: {error}")

    def _warn_once(self, what: str, text: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            self._warn(f"executor {self.address}: {text}")


def _inputs(request: WorkRequest, ended: OperationEnd) -> tuple[Digest, ...]:
    """Return the inputs that the server may lack; all other blobs are messages."""
    inputs = tuple(digest for _, digest in request.resolved.inputs)
    if ended.code == "NOT_FOUND" and not ended.missing:
        return inputs
    return tuple(digest for digest in inputs if digest.hash in ended.missing)
