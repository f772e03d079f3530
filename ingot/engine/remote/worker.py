"""Run a request on a worker of a Dask scheduler, and upload the result.

A worker has a store of its own (INGOT_CACHE) and shares a cache with the builds
(INGOT_SHARED_CACHE). It runs an action only with the tools that the action's key names.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from ingot.codec import to_json
from ingot.engine import run_action, sandbox, toolchain
from ingot.engine.action_keys import encode_action
from ingot.engine.actions import Action, Digest, Output
from ingot.engine.byte_sizes import parse_size
from ingot.engine.cache.backend import CacheFailure
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.digests import Digests
from ingot.engine.gc import collect_garbage
from ingot.engine.machine import machine
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.remote.request import WorkRequest, WorkResponse, decode_request
from ingot.engine.run_action import StaleInput
from ingot.engine.store import Store
from ingot.engine.trust import signer
from ingot.errors import IngotError

SAME = "start workers from the same checkout, on machines of one kind"
DISK = "free space on the worker's disk, or fix its permissions"
CACHE = "fix the cache, or run without executor="

LIMIT = "INGOT_CACHE_LIMIT"

# Between two collections, each of which reads all results in the store.
COLLECT_S = 60.0


def execute(text: str) -> str:
    """Return the response to a request; this is what the scheduler calls."""
    worker = f"{socket.gethostname()}, process {os.getpid()}"
    return to_json(respond(lambda: _serve(decode_request(text)), worker))


def respond(run: Callable[[], WorkResponse], worker: str) -> WorkResponse:
    """Return the worker's response: that of `run`, or why it rejects the request."""
    try:
        response = run()
    except IngotError as error:
        response = WorkResponse("", rejection=error.message, remedy=error.hint)
    except OSError as error:
        response = WorkResponse("", rejection=str(error), remedy=DISK)
    except CorruptMessage as error:
        response = WorkResponse("", rejection=str(error), remedy=SAME)
    except CacheFailure as error:
        response = WorkResponse("", rejection=f"shared cache: {error}", remedy=CACHE)
    return replace(response, worker=worker)


def _serve(request: WorkRequest) -> WorkResponse:
    here = _open_worker()
    check_tools(request, here.store.digests)
    if request.store == here.store.identity():
        # The build holds the lock that running the action here needs.
        raise IngotError(
            f"its store, {here.store.root}, is that of the build",
            "set INGOT_CACHE of the workers to another folder",
        )
    here.keep_to_limit()
    with here.store.lease_scope():
        return _execute(request, here.store, here.shared)


class Worker:
    """The store and the shared cache of this process; safe for several threads."""

    def __init__(self) -> None:
        """Open both, as the environment names them.

        Raises: IngotError if the environment names no shared cache.
        """
        from ingot.engine.cache.backend import Timeouts
        from ingot.engine.cache.cache_address import connect

        address = os.environ.get("INGOT_SHARED_CACHE")
        if not address:
            raise IngotError("it has no shared cache: set INGOT_SHARED_CACHE")
        name = os.environ.get("INGOT_CACHE") or "~/.cache/ingot"
        self.store = Store(Path(name).expanduser().absolute(), warn=_warn)
        timeouts = Timeouts()
        backend = connect(address, os.environ, timeouts)
        self.shared = SharedCache(
            backend,
            self.store,
            _warn,
            writes=True,
            timeouts=timeouts,
            sign=signer(os.environ),
        )
        self._collecting = threading.Lock()
        self._collected_s = -COLLECT_S

    def keep_to_limit(self) -> None:
        """Now and then, shrink the store to INGOT_CACHE_LIMIT.

        Raises: IngotError if the limit is not a size.
        """
        limit = parse_size(os.environ.get("INGOT_CACHE_LIMIT") or "none", LIMIT)
        if limit is None or not self._collecting.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._collected_s > COLLECT_S:
                self._collected_s = time.monotonic()
                # No grace period: nobody looks at results here, and blobs that are
                # needed again are downloaded again.
                collect_garbage(self.store.root, limit, grace_s=0.0)
        except OSError as error:
            _warn(f"store {self.store.root}: cannot be limited: {error}")
        finally:
            self._collecting.release()


_opening = threading.Lock()
_worker = cache(Worker)


def _open_worker() -> Worker:
    """Return the process's worker, opened once, whichever thread comes first."""
    with _opening:
        return _worker()


def check_tools(request: WorkRequest, digests: Digests) -> None:
    """Check that this machine has the tools and facts that the action's key names.

    Raises: IngotError if it differs: a result under another machine's key would be
        wrong for every machine that shares it.
    """
    here = {f"tool:{tool}": toolchain.identity(tool, digests) for tool in request.tools}
    here |= {"sandbox": sandbox.kind(), **dict(machine())}
    for name, wanted in request.resolved.platform:
        if here.get(name, wanted) != wanted:
            raise IngotError(f"its {name} is '{here[name]}'; expected '{wanted}'", SAME)


def _execute(request: WorkRequest, store: Store, shared: SharedCache) -> WorkResponse:
    encoded = encode_action(request.resolved)
    with store.lock(encoded.key):
        result = store.action(encoded.key, request.resolved.outputs)
        if result is None:
            missing = tuple(
                digest
                for _, digest in request.resolved.inputs
                if not shared.ensure_local(digest)
            )
            if missing:
                return WorkResponse("", missing_inputs=missing)
            response = _run(request, store)
            if response.missing_inputs:
                return response
            result = response.result(request.task)
            if result is None:
                assert response.log is not None
                shared.send({response.log: store.blob(response.log)}, again=True)
                return response
            result = replace(result, messages=encoded.messages)
        # An earlier result of this worker too: its key may have changed since.
        result = shared.for_upload(encoded.key, result)
        store.put_action(encoded.key, result)
        shared.publish(encoded.key, result.blobs(), request.again)
        return WorkResponse(
            "",
            outputs=result.outputs,
            wall_ms=result.wall_ms,
            log=result.log,
            signature=result.signature.decode(),
        )


def _run(request: WorkRequest, store: Store) -> WorkResponse:
    """Run the command; return its outputs, or how it failed."""
    action = request.action()
    with store.machine_lock(action.exclusive), store.scratch() as folder:

        def blob(action: Action, source: Output, digest: Digest) -> Path:
            return store.blob(digest)

        try:
            large = run_action.stage_inputs(action, request.resolved, folder, blob)
        except StaleInput:
            lost = _corrupt_inputs(request, store)
            if not lost:
                raise
            return WorkResponse("", missing_inputs=lost)
        start = time.monotonic()
        ended = run_action.run_command(action, folder, large)
        wall_ms = (time.monotonic() - start) * 1e3
        log = store.put_bytes(ended.output)
        if ended.failed:
            lost = _corrupt_inputs(request, store)
            if lost:
                return WorkResponse("", missing_inputs=lost)
            return WorkResponse(
                "", log=log, exit_code=ended.exit_code, missing_outputs=ended.missing
            )
        outputs = tuple((p, store.take_file(folder / p)) for p in action.outputs)
        return WorkResponse("", outputs=outputs, wall_ms=wall_ms, log=log)


def _corrupt_inputs(request: WorkRequest, store: Store) -> tuple[Digest, ...]:
    """Return the inputs that the store has lost since they were downloaded."""
    return tuple(d for _, d in request.resolved.inputs if not store.is_intact(d))


def _warn(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
