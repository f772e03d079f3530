"""Run actions on the workers of a Dask scheduler.

Equal actions of several builds are one task there, because the task is named by the
action's key. When a worker dies, the scheduler runs its tasks on another one, a few
times at most. When the scheduler is lost, every request is sent again once it is back;
finished actions are then cache hits.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from ingot.codec import to_json
from ingot.engine.remote.request import WorkRequest, WorkResponse, decode_response
from ingot.engine.remote.worker import execute
from ingot.errors import IngotError

ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")

# How long to wait for a scheduler that went away.
RETURN_S = 60.0
CONNECT_S = 10.0

# A scheduler or a build with much to do may be silent on a connection for this long.
SILENT_S = 300

# Workers' resources change seldom, and asking costs a scheduler as much as a task.
REFRESH_S = 2.0

# Requests within this time are sent as one message: a scheduler takes twice as long for
# separate messages.
GATHER_S = 0.02

# A worker labelled `vulkan=1` runs this many of its actions at once; a benchmark takes
# the whole label.
LABEL_SHARE = 1 / 1024


@dataclass(slots=True)
class _PendingCall:
    """One request on its way to a worker."""

    text: str
    key: str
    client: Any
    resources: dict[str, float] | None = None
    future: Any = None
    error: Exception | None = None


class DaskWorkers:
    """The workers of one scheduler; safe for several threads."""

    def __init__(self, address: str, warn: Callable[[str], None]) -> None:
        """Connect to the scheduler.

        Raises: IngotError if nothing responds at the address.
        """
        self.address = address
        self._warn = warn
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: list[_PendingCall] = []
        self._gone: IngotError | None = None
        self._warned: set[str] = set()
        # Dask's own warnings are reported here instead, in the user's words. It sets
        # these levels when it is imported.
        import distributed  # noqa: F401

        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        self._last_known: tuple[float, list[dict[str, float]]] = (-REFRESH_S, [])
        self._closed = False
        self._client = self._connect(CONNECT_S)

    def run(self, request: WorkRequest, name: str) -> WorkResponse:
        """Return a worker's response.

        Raises: IngotError if it kills its workers, or the scheduler stays away.
        """
        from distributed import KilledWorker

        text = to_json(request)
        while True:
            call = _PendingCall(text, f"ingot-{name}", self._client)
            try:
                call.resources = self._resources(request)
                self._send(call)
                return decode_response(call.future.result())
            except KilledWorker as error:
                raise IngotError(
                    f"{request.task}: {error.allowed_failures + 1} workers died running"
                    f" it; the last was {error.last_worker.address}",
                    "run it on this machine: the same command without executor=",
                ) from error
            except IngotError:
                raise
            except Exception as error:
                if call.future is not None and call.future.status == "error":
                    # The worker failed, not the connection.
                    raise IngotError(
                        f"{request.task}: its worker failed:"
                        f" {type(error).__name__}: {error}",
                        "start workers from the same checkout, or run it on this"
                        " machine: the same command without executor=",
                    ) from error
                if not isinstance(error, _losses()):
                    raise
                self._reconnect(call.client)

    def remedy(self, cache: str) -> str:
        """Return what to do if workers do not see what this machine uploads."""
        return f"set INGOT_SHARED_CACHE of the workers to {cache}"

    def close(self) -> None:
        """Abandon waiting requests; running ones finish and are cached."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)

    def _send(self, call: _PendingCall) -> None:
        """Send the call together with others of this moment; it has its future then.

        Raises: what the client raises if the scheduler is lost.
        """
        with self._lock:
            self._waiting.append(call)
        # The first thread sends for all that arrive in the meantime.
        with self._sending:
            if call.future is None and call.error is None:
                time.sleep(GATHER_S)
                with self._lock:
                    calls, self._waiting = self._waiting, []
                for resources in {
                    str(each.resources): each.resources for each in calls
                }.values():
                    _map(self._client, [c for c in calls if c.resources == resources])
        if call.error is not None:
            raise call.error

    def _resources(self, request: WorkRequest) -> dict[str, float]:
        """Return what the worker must have; report if no worker has it yet."""
        available = self._available()
        for label in request.labels:
            if not any(label in item for item in available):
                self._warn_once(
                    f"no worker has the label '{label}' yet; {request.task} waits"
                )
        if not available:
            self._warn_once(f"there is no worker yet; {request.task} waits")
        resources = {
            label: 1.0 if request.exclusive and label == "bench" else LABEL_SHARE
            for label in request.labels
        }
        # A request for more than any worker has would wait forever.
        largest = max((item.get("memory", 0.0) for item in available), default=0.0)
        if largest:
            resources["memory"] = min(float(request.memory_bytes), largest)
        return resources

    def _available(self) -> list[dict[str, float]]:
        """Return the resources of every worker.

        Raises: OSError if the scheduler is lost.
        """
        # One thread asks for all: otherwise hundreds would ask at the same moment.
        with self._asking:
            asked, available = self._last_known
            if time.monotonic() - asked > REFRESH_S:
                known = self._client.scheduler_info(n_workers=-1)
                if "workers" not in known:
                    raise ConnectionError("the scheduler is lost")
                available = [
                    worker["resources"] for worker in known["workers"].values()
                ]
                self._last_known = (time.monotonic(), available)
            return available

    def _connect(self, timeout_s: float) -> Any:
        import dask
        from distributed import Client

        scheme = "tls" if self.address.startswith("dask+tls") else "tcp"
        address = self.address.partition("://")[2]
        if (
            ADDRESS.fullmatch(address) is None
            or int(address.rpartition(":")[2]) > 65535
        ):
            raise IngotError(
                f"executor={self.address}: not a scheduler's address",
                "expected dask://HOST:PORT, such as dask://127.0.0.1:8786",
            )
        dask.config.set({"distributed.comm.timeouts.tcp": f"{SILENT_S}s"})
        try:
            return Client(  # type: ignore[no-untyped-call]
                f"{scheme}://{address}", timeout=timeout_s, set_as_default=False
            )
        except (OSError, TimeoutError) as error:
            raise IngotError(
                f"executor={self.address}: no scheduler responds there",
                "start one: doit cluster",
            ) from error
        except (TypeError, ValueError) as error:
            # Dask's message about TLS without certificates is about its internals.
            raise IngotError(
                f"executor={self.address}: cannot connect: {error}",
                "configure certificates and keys as Dask's documentation describes:"
                " distributed.comm.tls",
            ) from error

    def _reconnect(self, lost: Any) -> None:
        """Replace the lost connection; the first thread does it for all.

        Raises: IngotError if the scheduler stays away.
        """
        with self._lock:
            if self._closed:
                raise IngotError("stopped")
            if self._client is not lost:
                return
            if self._gone is not None:
                # One thread has waited; the others do not wait again.
                raise IngotError(self._gone.message, self._gone.hint)
            self._warn_once("the connection to the scheduler is lost; waiting for it")
            # A half-closed client may raise anything.
            with contextlib.suppress(Exception):
                lost.close(timeout=1)
            end = time.monotonic() + RETURN_S
            while True:
                try:
                    # Every client that finds no scheduler leaves a thread behind.
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
        """Return whether anything accepts connections at the scheduler's address."""
        parts = urlsplit(self.address)
        with contextlib.suppress(OSError):
            socket.create_connection((parts.hostname, parts.port), 2.0).close()
            return True
        return False

    def _warn_once(self, text: str) -> None:
        if text.partition(";")[0] not in self._warned:
            self._warned.add(text.partition(";")[0])
            self._warn(f"executor {self.address}: {text}")


def _map(client: Any, calls: list[_PendingCall]) -> None:
    """Give each call, all with the same resources, its future or its error."""
    try:
        futures = client.map(
            execute,
            [call.text for call in calls],
            key=[call.key for call in calls],
            resources=calls[0].resources,
            # A response is for one build only: another looks in the caches first.
            pure=False,
        )
    except Exception as error:
        futures = [None] * len(calls)
        for call in calls:
            call.error = error
    for call, future in zip(calls, futures, strict=True):
        call.client, call.future = client, future


def _losses() -> tuple[type[BaseException], ...]:
    """Return the exceptions that a lost scheduler raises."""
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
