"""Orders in, answers out: by workers of a Dask scheduler.

Equal actions of several builds are one task there, since its name is the action's key.
A worker that dies loses what it ran: it runs elsewhere, a few times at most. Where the
scheduler is lost, everything is sent again once it is back; what is done is a hit.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ingot.engine.remote.request import (
    WorkRequest,
    WorkResponse,
    decode_response,
    encode,
)
from ingot.engine.remote.worker import perform
from ingot.errors import IngotError

ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")

# How long a scheduler that went away is waited for.
RETURN_S = 60.0
CONNECT_S = 10.0

# Of a connection: a scheduler or a build with much to do may be silent that long.
SILENT_S = 300

# What workers offer changes seldom, and asking costs a scheduler as much as a task.
KNOWN_S = 2.0

# Calls of so short a time are sent as one message: a scheduler takes twice as long for
# as many messages.
GATHER_S = 0.02

# A worker labelled `vulkan=1` runs so many of its actions at once; a benchmark takes
# the whole label.
SHARE = 1 / 1024


@dataclass(slots=True)
class _Call:
    """One order on its way to a worker."""

    text: str
    key: str
    client: Any
    wanted: dict[str, float] | None = None
    future: Any = None
    error: Exception | None = None


class DaskWorkers:
    """The workers of one scheduler; safe for several threads."""

    def __init__(self, address: str, warn: Callable[[str], None]) -> None:
        """Connect.

        Raises: IngotError where nobody answers at the address.
        """
        self.address = address
        self._warn = warn
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: list[_Call] = []
        self._gone: IngotError | None = None
        self._said: set[str] = set()
        # Its own complaints are told here, in words for who builds. When it is imported
        # it sets these levels.
        import distributed  # noqa: F401

        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._known: tuple[float, list[dict[str, float]]] = (-KNOWN_S, [])
        self._closed = False
        self._client = self._connect(CONNECT_S)

    def run(
        self, order: WorkRequest, name: str, labels: tuple[str, ...], memory_bytes: int
    ) -> WorkResponse:
        """Return a worker's answer.

        Raises: IngotError where workers die of it, or the scheduler stays away.
        """
        from distributed import KilledWorker

        text = encode(order)
        while True:
            call = _Call(text, f"ingot-{name}", self._client)
            try:
                call.wanted = self._resources(order, labels, memory_bytes)
                self._send(call)
                return decode_response(call.future.result())
            except KilledWorker as error:
                raise IngotError(
                    f"{order.task}: {error.allowed_failures + 1} workers died of it;"
                    f" the last was {error.last_worker.address}",
                    "run it here: the same command without executor=",
                ) from error
            except IngotError:
                raise
            except Exception as error:
                if call.future is not None and call.future.status == "error":
                    # The worker's own defect, not the connection's.
                    raise IngotError(
                        f"{order.task}: its worker failed:"
                        f" {type(error).__name__}: {error}",
                        "start workers from the same checkout, or run it here: the same"
                        " command without executor=",
                    ) from error
                if not isinstance(error, _losses()):
                    raise
                self._reconnect(call.client)

    def remedy(self, cache: str) -> str:
        """Return what to do where workers do not see what this machine sends."""
        return f"set INGOT_SHARED_CACHE of the workers to {cache}"

    def close(self) -> None:
        """Let go of what still waits there; what runs ends, and is kept."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)

    def _send(self, call: _Call) -> None:
        """Send the call, and those that come with it; it has its future then.

        Raises: what the client does where the scheduler is lost.
        """
        with self._lock:
            self._waiting.append(call)
        # Whoever comes first sends for all that came meanwhile.
        with self._sending:
            if call.future is None and call.error is None:
                time.sleep(GATHER_S)
                with self._lock:
                    calls, self._waiting = self._waiting, []
                for wanted in {
                    str(each.wanted): each.wanted for each in calls
                }.values():
                    _map(self._client, [c for c in calls if c.wanted == wanted])
        if call.error is not None:
            raise call.error

    def _resources(
        self, order: WorkRequest, labels: tuple[str, ...], memory_bytes: int
    ) -> dict[str, float]:
        """Return what the worker must have; say where none has it so far."""
        offered = self._offered()
        for label in labels:
            if not any(label in item for item in offered):
                self._say(f"no worker is labelled '{label}' so far; {order.task} waits")
        if not offered:
            self._say(f"there is no worker so far; {order.task} waits")
        wanted = {
            label: 1.0 if order.exclusive and label == "bench" else SHARE
            for label in labels
        }
        # More than anybody has would wait for ever.
        largest = max(_column(offered, "memory"), default=0.0)
        if largest:
            wanted["memory"] = min(float(memory_bytes), largest)
        return wanted

    def _offered(self) -> list[dict[str, float]]:
        """Return the resources of every worker.

        Raises: OSError where the scheduler is lost.
        """
        # One asks for all: hundreds of threads find the answer old at once.
        with self._asking:
            asked, offered = self._known
            if time.monotonic() - asked > KNOWN_S:
                known = self._client.scheduler_info(n_workers=-1)
                if "workers" not in known:
                    raise ConnectionError("the scheduler is lost")
                offered = [worker["resources"] for worker in known["workers"].values()]
                self._known = (time.monotonic(), offered)
            return offered

    def _connect(self, timeout_s: float) -> Any:
        import dask
        from distributed import Client

        scheme = "tls" if self.address.startswith("dask+tls") else "tcp"
        place = self.address.partition("://")[2]
        if ADDRESS.fullmatch(place) is None or int(place.rpartition(":")[2]) > 65535:
            raise IngotError(
                f"executor={self.address}: no address of a scheduler",
                "expected dask://HOST:PORT, such as dask://127.0.0.1:8786",
            )
        dask.config.set({"distributed.comm.timeouts.tcp": f"{SILENT_S}s"})
        try:
            return Client(  # type: ignore[no-untyped-call]
                f"{scheme}://{place}", timeout=timeout_s, set_as_default=False
            )
        except (OSError, TimeoutError) as error:
            raise IngotError(
                f"executor={self.address}: no scheduler answers there",
                "start one: doit cluster",
            ) from error
        except (TypeError, ValueError) as error:
            # What Dask says of TLS without certificates is of its own insides.
            raise IngotError(
                f"executor={self.address}: cannot connect: {error}",
                "certificates and their keys are set as Dask's documentation says:"
                " distributed.comm.tls",
            ) from error

    def _reconnect(self, lost: Any) -> None:
        """Replace the connection; whoever comes first does it for all.

        Raises: IngotError where the scheduler stays away.
        """
        with self._lock:
            if self._closed:
                raise IngotError("stopped")
            if self._client is not lost:
                return
            if self._gone is not None:
                # Waited for once, not by each in turn.
                raise IngotError(self._gone.message, self._gone.hint)
            self._say("the scheduler is lost; waiting for it to be back")
            # It may fail in any way: it is half-closed.
            with contextlib.suppress(Exception):
                lost.close(timeout=1)
            end = time.monotonic() + RETURN_S
            while True:
                try:
                    # A client that finds nobody leaves a thread behind, each time.
                    if self._is_there() or time.monotonic() > end:
                        self._client = self._connect(2.0)
                        return
                except IngotError as error:
                    if self._closed or time.monotonic() > end:
                        self._gone = error
                        raise
                if self._closed:
                    raise IngotError("stopped")
                time.sleep(0.5)

    def _is_there(self) -> bool:
        """Return whether anybody takes connections at the scheduler's address."""
        place = urlsplit(self.address)
        with contextlib.suppress(OSError):
            socket.create_connection((place.hostname, place.port), 2.0).close()
            return True
        return False

    def _say(self, text: str) -> None:
        if text.partition(";")[0] not in self._said:
            self._said.add(text.partition(";")[0])
            self._warn(f"executor {self.address}: {text}")


def _map(client: Any, calls: list[_Call]) -> None:
    """Give each call, all of one kind of worker, its future, or what went wrong."""
    try:
        futures = client.map(
            perform,
            [call.text for call in calls],
            key=[call.key for call in calls],
            resources=calls[0].wanted,
            # An answer is for one build only: another asks the caches first.
            pure=False,
        )
    except Exception as error:
        futures = [None] * len(calls)
        for call in calls:
            call.error = error
    for call, future in zip(calls, futures, strict=True):
        call.client, call.future = client, future


def _losses() -> tuple[type[BaseException], ...]:
    """Return what is raised where the scheduler is lost."""
    from distributed import CancelledError
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    return (
        CancelledError,
        FutureCancelledError,
        CommClosedError,
        OSError,
        TimeoutError,
        RuntimeError,
    )


def _column(rows: Iterable[dict[str, float]], name: str) -> list[float]:
    return [row[name] for row in rows if name in row]
