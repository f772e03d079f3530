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

from ingot import command
from ingot.edges import process, toolchain
from ingot.edges.machine import machine
from ingot.edges.shared.cache import SharedCache
from ingot.edges.shared.remote import CacheFailure
from ingot.edges.store import Store
from ingot.errors import IngotError
from ingot.farm.order import Answer, Order, decode_order, encode
from ingot.values import Action, ActionResult, Digest, Output

_opening = threading.Lock()
_opened: list[tuple[Store, SharedCache]] = []


def perform(text: str) -> str:
    """Return the answer to an order; this is what the scheduler calls."""
    worker = f"{socket.gethostname()}, process {os.getpid()}"
    order = decode_order(text)
    if order is None:
        return encode(Answer(worker, refusal="it is of another version of ingot"))
    try:
        store, shared = _places()
        refusal = _other_tools(order, store)
        if refusal:
            return encode(Answer(worker, refusal=refusal))
        return encode(replace(_perform(order, store, shared), worker=worker))
    except (IngotError, OSError) as error:
        return encode(Answer(worker, refusal=str(error)))
    except CacheFailure as error:
        return encode(Answer(worker, refusal=f"shared cache: {error}"))


def _places() -> tuple[Store, SharedCache]:
    """Return the worker's store and shared cache, opened once a process."""
    with _opening:
        if not _opened:
            from ingot.edges.shared.address import connect
            from ingot.edges.shared.remote import Patience

            address = os.environ.get("INGOT_SHARED_CACHE")
            if not address:
                raise IngotError("it has no shared cache: set INGOT_SHARED_CACHE")
            name = os.environ.get("INGOT_CACHE") or "~/.cache/ingot"
            store = Store(Path(name).expanduser().absolute(), warn=_warn)
            patience = Patience()
            remote = connect(address, os.environ, patience)
            shared = SharedCache(remote, store, _warn, writes=True, patience=patience)
            _opened.append((store, shared))
        return _opened[0]


def _other_tools(order: Order, store: Store) -> str:
    """Return in what this machine differs from the action's key; "" where it does not.

    A result under another machine's key would be wrong for everybody who shares it.
    """
    here = {
        f"tool:{tool}": toolchain.identity(tool, store.digests) for tool in order.tools
    }
    here |= {"sandbox": process.sandbox(), **dict(machine())}
    for name, wanted in order.bound.platform:
        if here.get(name, wanted) != wanted:
            return f"its {name} is '{here[name]}'; expected '{wanted}'"
    return ""


def _perform(order: Order, store: Store, shared: SharedCache) -> Answer:
    from ingot.keys import encode as encode_action

    encoded = encode_action(order.bound)
    with store.locked(encoded.key):
        result = store.action(encoded.key)
        names = {path for path, _ in result.outputs} if result else set()
        if result is None or names != set(order.bound.outputs):
            missing = tuple(
                digest for _, digest in order.bound.inputs if not shared.bring(digest)
            )
            if missing:
                return Answer("", missing=missing)
            store.put_blobs(encoded.blobs)
            answer = _run(order, store)
            if answer.result is None:
                assert answer.log is not None
                shared.send({answer.log: store.blob(answer.log)})
                return answer
            result = answer.result
            store.put_action(encoded.key, result)
        messages = tuple(digest for digest, _ in encoded.blobs)
        shared.publish(encoded.key, messages + result.blobs())
        return Answer("", result=result)


def _run(order: Order, store: Store) -> Answer:
    """Return what the command made, or how it failed."""
    action = order.action()
    with store.machine(action.exclusive), store.scratch() as folder:

        def blob(action: Action, source: Output, digest: Digest) -> Path:
            return store.blob(digest)

        large = command.lay_out(action, order.bound, folder, blob)
        start = time.monotonic()
        done = command.start(action, folder, large)
        wall_ms = (time.monotonic() - start) * 1e3
        log = store.put_bytes(done.output)
        unwritten = tuple(p for p in action.outputs if not (folder / p).is_file())
        if done.exit_code != 0 or unwritten:
            return Answer("", exit_code=done.exit_code, log=log, unwritten=unwritten)
        outputs = tuple((p, store.take_file(folder / p)) for p in action.outputs)
        return Answer(
            "",
            result=ActionResult(
                outputs=outputs, log=log, task=action.task, wall_ms=wall_ms
            ),
        )


def _warn(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
