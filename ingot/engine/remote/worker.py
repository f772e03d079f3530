"""An order in, its result in the shared cache and the answer out: what a worker does.

A worker has a store of its own (INGOT_CACHE) and shares one cache with whoever builds
(INGOT_SHARED_CACHE). It runs an action only where its tools are those of the key.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from ingot.engine import process, run_action, toolchain
from ingot.engine.actions import Action, ActionResult, Digest, Output
from ingot.engine.byte_sizes import parse_size
from ingot.engine.cache.backend import CacheFailure
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.digests import Digests
from ingot.engine.gc import collect_garbage
from ingot.engine.machine import machine
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.remote.request import (
    WorkRequest,
    WorkResponse,
    decode_request,
    encode,
)
from ingot.engine.store import Store
from ingot.errors import IngotError

SAME = "start workers from the same checkout, on machines of one kind"
ROOM = "mend the disk of that worker, or make room or permission there"
REACH = "mend the cache, or run here, without executor="

LIMIT = "INGOT_CACHE_LIMIT"

# Between two looks at the size of the store, which reads all results in it.
COLLECT_S = 60.0

_collecting = threading.Lock()
_collected = {"at_s": -COLLECT_S}
_opening = threading.Lock()
_opened: list[tuple[Store, SharedCache]] = []


def perform(text: str) -> str:
    """Return the answer to an order; this is what the scheduler calls."""
    worker = f"{socket.gethostname()}, process {os.getpid()}"
    try:
        order = decode_request(text)
        if order is None:
            raise IngotError("it is of another version of ingot", SAME)
        store, shared = _places()
        refusal = other_tools(order, store.digests)
        if refusal:
            raise IngotError(refusal, SAME)
        if order.store == store.identity():
            # Who waits for the answer holds the lock that running it needs.
            raise IngotError(
                f"its store, {store.root}, is that of the build",
                "set INGOT_CACHE of the workers to another folder",
            )
        _keep_to_limit(store)
        with store.lease_scope():
            answer = _perform(order, store, shared)
        return encode(replace(answer, worker=worker))
    except IngotError as error:
        return encode(WorkResponse(worker, refusal=error.message, remedy=error.hint))
    except OSError as error:
        return encode(WorkResponse(worker, refusal=str(error), remedy=ROOM))
    except CorruptMessage as error:
        return encode(WorkResponse(worker, refusal=str(error), remedy=SAME))
    except CacheFailure as error:
        return encode(
            WorkResponse(worker, refusal=f"shared cache: {error}", remedy=REACH)
        )


def _places() -> tuple[Store, SharedCache]:
    """Return the worker's store and shared cache, opened once a process."""
    with _opening:
        if not _opened:
            from ingot.engine.cache.address import connect
            from ingot.engine.cache.backend import Timeouts

            address = os.environ.get("INGOT_SHARED_CACHE")
            if not address:
                raise IngotError("it has no shared cache: set INGOT_SHARED_CACHE")
            name = os.environ.get("INGOT_CACHE") or "~/.cache/ingot"
            store = Store(Path(name).expanduser().absolute(), warn=_warn)
            timeouts = Timeouts()
            remote = connect(address, os.environ, timeouts)
            shared = SharedCache(remote, store, _warn, writes=True, timeouts=timeouts)
            _opened.append((store, shared))
        return _opened[0]


def other_tools(order: WorkRequest, digests: Digests) -> str:
    """Return in what this machine differs from the action's key; "" where it does not.

    A result under another machine's key would be wrong for everybody who shares it.
    """
    here = {f"tool:{tool}": toolchain.identity(tool, digests) for tool in order.tools}
    here |= {"sandbox": process.sandbox(), **dict(machine())}
    for name, wanted in order.resolved.platform:
        if here.get(name, wanted) != wanted:
            return f"its {name} is '{here[name]}'; expected '{wanted}'"
    return ""


def _perform(order: WorkRequest, store: Store, shared: SharedCache) -> WorkResponse:
    from ingot.engine.keys import encode_action

    encoded = encode_action(order.resolved)
    with store.lock(encoded.key):
        result = store.action(encoded.key)
        names = {path for path, _ in result.outputs} if result else set()
        if result is None or names != set(order.resolved.outputs):
            missing = tuple(
                digest
                for _, digest in order.resolved.inputs
                if not shared.ensure_local(digest)
            )
            if missing:
                return WorkResponse("", missing=missing)
            answer = _run(order, store)
            if answer.result is None:
                assert answer.log is not None
                shared.send({answer.log: store.blob(answer.log)}, again=True)
                return answer
            result = answer.result
            told = replace(result, messages=encoded.messages)
            store.put_action(encoded.key, shared.with_inline_blobs(told))
        shared.publish(encoded.key, result.blobs(), order.again)
        # Who asked has the messages.
        return WorkResponse("", result=replace(result, messages=(), contents=()))


def _run(order: WorkRequest, store: Store) -> WorkResponse:
    """Return what the command made, or how it failed."""
    action = order.action()
    with store.machine_lock(action.exclusive), store.scratch() as folder:

        def blob(action: Action, source: Output, digest: Digest) -> Path:
            return store.blob(digest)

        large = run_action.stage_inputs(action, order.resolved, folder, blob)
        start = time.monotonic()
        done = run_action.run_command(action, folder, large)
        wall_ms = (time.monotonic() - start) * 1e3
        log = store.put_bytes(done.output)
        unwritten = tuple(p for p in action.outputs if not os.path.isfile(folder / p))
        if done.exit_code != 0 or unwritten:
            return WorkResponse(
                "", exit_code=done.exit_code, log=log, unwritten=unwritten
            )
        outputs = tuple((p, store.take_file(folder / p)) for p in action.outputs)
        return WorkResponse(
            "",
            result=ActionResult(
                outputs=outputs, log=log, task=action.task, wall_ms=wall_ms
            ),
        )


def _keep_to_limit(store: Store) -> None:
    """Remove from the store what exceeds INGOT_CACHE_LIMIT, now and then.

    Raises: IngotError where the limit is no size.
    """
    limit = parse_size(os.environ.get("INGOT_CACHE_LIMIT") or "none", LIMIT)
    if limit is None or not _collecting.acquire(blocking=False):
        return
    try:
        if time.monotonic() - _collected["at_s"] > COLLECT_S:
            _collected["at_s"] = time.monotonic()
            # Nothing here is for people: what is used again is fetched again.
            collect_garbage(store.root, limit, grace_s=0.0)
    except OSError as error:
        _warn(f"store {store.root}: cannot be kept to its limit: {error}")
    finally:
        _collecting.release()


def _warn(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
