"""Orders in, answers out: by workers of a server of Bazel's remote-execution API.

An order becomes an action whose messages and inputs are in the server's cache. What
comes back is kept there under the action's own key, where every build finds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit

from ingot.engine import reapi_pb2 as reapi
from ingot.engine.actions import Digest
from ingot.engine.cache.address import authorization
from ingot.engine.cache.backend import CacheFailure, Timeouts, Unreachable
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.keys import encode_action
from ingot.engine.remote.cache_transfer import RemoteExecutor
from ingot.engine.remote.reapi_action import ANSWER, LOG, ORDER, OUTPUTS, wired
from ingot.engine.remote.reapi_execution import AGAIN, Ended, Execution
from ingot.engine.remote.request import WorkRequest, WorkResponse, decode_response
from ingot.engine.results import checked_digest
from ingot.engine.store import Store
from ingot.errors import IngotError

EXPECTED = "expected grpc://HOST:PORT/INSTANCE?PROPERTY=VALUE&..."

HERE = "run it here: the same command without executor="

# How often messages are sent that the server does not find.
N_SENT = 3

# Ends of an action of which the server lacks something; the second is of a worker that
# does not find it, and names it in words at best.
LACKS = ("FAILED_PRECONDITION", "NOT_FOUND")


def open_server(
    address: str,
    shared: SharedCache,
    store: Store,
    environment: Mapping[str, str],
    warn: Callable[[str], None],
    timeouts: Timeouts | None = None,
) -> tuple[ReapiWorkers, RemoteExecutor]:
    """Return the workers of a server; what follows `?` is what they want of an action.

    Raises: IngotError where the address is wrong, or nothing can be run there.
    """
    try:
        parts = urlsplit(address)
        pairs = parse_qsl(parts.query, True, strict_parsing=True) if parts.query else []
    except ValueError:
        parts, pairs = urlsplit(""), []
    if not parts.hostname or parts.username is not None:
        raise IngotError(
            f"executor={parts.scheme}: this is no server's address; {EXPECTED}",
            "a password comes from ~/.netrc or INGOT_SHARED_CACHE_TOKEN",
        )
    shown = parts._replace(query="", fragment="").geturl()
    execution = Execution(
        shown, authorization(shown, environment), timeouts or Timeouts()
    )
    refusal = execution.refusal()
    if refusal:
        raise IngotError(
            f"executor={shown}: nothing can be run there: {refusal}",
            "it needs what docs/sharing.md says; a password comes from ~/.netrc or"
            " INGOT_SHARED_CACHE_TOKEN",
        )
    farm = ReapiWorkers(execution, tuple(pairs), shared, store, warn)
    return farm, RemoteExecutor(farm, farm.shared, store)


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
        """Keep them; `properties` are what the server's workers want of an action."""
        self.address = execution.name
        self._execution = execution
        self._properties = properties
        self.shared = shared.patient(self.lost, execution.wait)
        self._store = store
        self._warn = warn
        self._said: set[str] = set()
        # Once it has lost something, nothing is taken to be there.
        self._again = False

    def remedy(self, cache: str) -> str:
        """Return what to do where workers do not see what this machine sends."""
        return f"let the server's workers read {cache}, or unset INGOT_SHARED_CACHE"

    def lost(self) -> None:
        """Say that the server went away."""
        self._say("lost", "the server is lost; waiting for it to be back")

    def run(
        self, order: WorkRequest, name: str, labels: tuple[str, ...], memory_bytes: int
    ) -> WorkResponse:
        """Return a worker's answer; a result is then kept under the action's key.

        Raises: IngotError where no worker can run it, CacheFailure where the cache
        fails.
        """
        ended, lookup = Ended(), True
        for _ in range(N_SENT):
            action = self._send(order, labels)
            ended = self._ended(order, action, not lookup, labels)
            if ended.code != "OK":
                self._again = True
                missing = _inputs(order, ended)
                if missing:
                    return WorkResponse(self.address, missing=missing)
                continue
            # A failure may have passed; what is there no more is made again.
            if lookup and ended.cached and ended.result.exit_code != 0:
                lookup = False
                continue
            answer = self._answer(order, ended.result)
            if answer is not None:
                self._publish(order, answer)
                return answer
            lookup = False
        found = ended.text or "what its worker made is not in the shared cache"
        raise IngotError(f"{order.task}: {self.address}: {found}", HERE)

    def close(self) -> None:
        """Stop what is under way there."""
        self._execution.close()

    def _send(self, order: WorkRequest, labels: tuple[str, ...]) -> Digest:
        """Send the messages of the action that a worker runs; return its digest."""
        action, content = wired(order, labels, self._properties)
        encoded = encode_action(action)
        blobs = {**dict(encoded.blobs), dict(action.inputs)[ORDER]: content}
        with self._store.scratch() as folder:
            files = {digest: folder / digest.hash for digest in blobs}
            for digest, path in files.items():
                path.write_bytes(blobs[digest])
            self.shared.send(files, again=self._again)
        return encoded.key

    def _ended(
        self,
        order: WorkRequest,
        action: Digest,
        skip_lookup: bool,
        labels: tuple[str, ...],
    ) -> Ended:
        """Return the end of the operation: a result, or that something is missing.

        Raises: IngotError where it ended in another way.
        """

        def queued() -> None:
            who = "no worker"
            if labels:
                who += " labelled " + " and ".join(f"'{label}'" for label in labels)
            if self._properties:
                who += " with " + ", ".join("=".join(pair) for pair in self._properties)
            self._say(who, f"{who} has taken {order.task} so far; it waits")

        try:
            ended = self._execution.run(action, skip_lookup, self.lost, queued)
        except Unreachable as error:
            raise IngotError(
                f"{order.task}: {self.address}: no server answers there any more",
                "run the same command again once it does: what is done is kept",
            ) from error
        if ended.code in ("OK", *LACKS):
            return ended
        words = f"{ended.code}: {ended.text}" if ended.text else ended.code
        if ended.code in AGAIN:
            raise IngotError(
                f"{order.task}: {self.address} began it {ended.tries} times and has no"
                f" result; the last time: {words}",
                HERE,
            )
        if ended.code == "DEADLINE_EXCEEDED":
            raise IngotError(
                f"{order.task}: {self.address} stopped it at the server's time limit",
                f"raise that limit, or {HERE}",
            )
        raise IngotError(f"{order.task}: {self.address} refuses it: {words}", HERE)

    def _answer(
        self, order: WorkRequest, result: reapi.ActionResult
    ) -> WorkResponse | None:
        """Return what the worker says; None where it is not in the cache any more.

        Raises: IngotError where no worker of ingot ran.
        """
        files = {
            file.path: checked_digest(file.digest.hash, file.digest.size_bytes)
            for file in result.output_files
        }
        log = files.get(LOG)
        if ANSWER not in files or log is None:
            raise IngotError(
                f"{order.task}: {self.address}: ingot does not start on its worker,"
                f" exit code {result.exit_code}\n{self._printed(result)}".rstrip(),
                f"workers need this environment in the same place: {sys.prefix}",
            )
        if not all(map(self.shared.ensure_local, files.values())):
            return None
        text = self._store.blob(files[ANSWER]).read_text(encoding="utf-8")
        answer = replace(decode_response(text), log=log)
        if answer.result is None:
            return answer
        made = {path: files.get(f"{OUTPUTS}/{path}") for path in order.resolved.outputs}
        outputs = tuple((path, digest) for path, digest in made.items() if digest)
        unwritten = tuple(path for path, digest in made.items() if digest is None)
        if unwritten:
            return replace(answer, result=None, unwritten=unwritten)
        return replace(answer, result=replace(answer.result, outputs=outputs, log=log))

    def _printed(self, result: reapi.ActionResult) -> str:
        """Return what was printed where nothing else is known."""
        found: bytes = result.stdout_raw + result.stderr_raw
        for message in (result.stdout_digest, result.stderr_digest):
            if message.hash:
                digest = checked_digest(message.hash, message.size_bytes)
                if self.shared.ensure_local(digest):
                    found += self._store.blob(digest).read_bytes()
        return found.decode(errors="replace").strip()

    def _publish(self, order: WorkRequest, answer: WorkResponse) -> None:
        """Keep a result under the key that it has everywhere."""
        if answer.result is None:
            return
        encoded = encode_action(order.resolved)
        result = replace(answer.result, messages=encoded.messages)
        self._store.put_action(encoded.key, result)
        try:
            self.shared.publish(encoded.key, result.blobs(), order.again)
        except CacheFailure as error:
            self._say("kept", f"results are not kept there for others: {error}")

    def _say(self, what: str, text: str) -> None:
        if what not in self._said:
            self._said.add(what)
            self._warn(f"executor {self.address}: {text}")


def _inputs(order: WorkRequest, ended: Ended) -> tuple[Digest, ...]:
    """Return the inputs that the server may lack; the rest are messages."""
    inputs = tuple(digest for _, digest in order.resolved.inputs)
    if ended.code == "NOT_FOUND" and not ended.missing:
        return inputs
    return tuple(digest for digest in inputs if digest.hash in ended.missing)
