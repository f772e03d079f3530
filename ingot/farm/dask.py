"""Orders in, answers out: by workers of a Dask scheduler.

Equal actions of several builds are one task there, since its name is the action's key.
A worker that dies loses what it ran: it runs elsewhere, a few times at most. Where the
scheduler is lost, everything is sent again once it is back; what is done is a hit.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from ingot.errors import IngotError
from ingot.farm.order import Answer, Order, decode_answer, encode
from ingot.farm.worker import perform

ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):\d{1,5}")

# How long a scheduler that went away is waited for.
RETURN_S = 60.0
CONNECT_S = 10.0

# Of a connection: a scheduler or a build with much to do may be silent that long.
SILENT_S = 300

# What workers offer changes seldom, and asking costs a scheduler as much as a task.
KNOWN_S = 2.0

# A worker labelled `vulkan=1` runs so many of its actions at once; a benchmark takes
# the whole label.
SHARE = 1 / 1024


class DaskFarm:
    """The workers of one scheduler; safe for several threads."""

    def __init__(self, address: str, warn: Callable[[str], None]) -> None:
        """Connect.

        Raises: IngotError where nobody answers at the address.
        """
        self.address = address
        self._warn = warn
        self._lock = threading.Lock()
        self._asking = threading.Lock()
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
        self, order: Order, name: str, labels: tuple[str, ...], memory_bytes: int
    ) -> Answer:
        """Return a worker's answer.

        Raises: IngotError where workers die of it, or the scheduler stays away.
        """
        from distributed import KilledWorker

        text = encode(order)
        while True:
            client, future = self._client, None
            try:
                wanted = self._resources(order, labels, memory_bytes)
                future = client.submit(
                    perform,
                    text,
                    key=f"ingot-{name}",
                    resources=wanted,
                    # An answer is for one build only: another asks the caches first.
                    pure=False,
                )
                return decode_answer(future.result())
            except KilledWorker as error:
                raise IngotError(
                    f"{order.task}: {error.allowed_failures + 1} workers died of it;"
                    f" the last was {error.last_worker.address}",
                    "run it here: the same command without executor=",
                ) from error
            except IngotError:
                raise
            except Exception as error:
                if future is not None and future.status == "error":
                    # The worker's own defect, not the connection's.
                    raise IngotError(
                        f"{order.task}: its worker failed:"
                        f" {type(error).__name__}: {error}",
                        "start workers from the same checkout, or run it here: the same"
                        " command without executor=",
                    ) from error
                if not isinstance(error, _losses()):
                    raise
                self._reconnect(client)

    def remedy(self, cache: str) -> str:
        """Return what to do where workers do not see what this machine sends."""
        return f"set INGOT_SHARED_CACHE of the workers to {cache}"

    def close(self) -> None:
        """Let go of what still waits there; what runs ends, and is kept."""
        self._closed = True
        with contextlib.suppress(Exception):
            self._client.close(timeout=2)

    def _resources(
        self, order: Order, labels: tuple[str, ...], memory_bytes: int
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
            self._say("the scheduler is lost; waiting for it to be back")
            # It may fail in any way: it is half-closed.
            with contextlib.suppress(Exception):
                lost.close(timeout=1)
            end = time.monotonic() + RETURN_S
            while True:
                try:
                    self._client = self._connect(2.0)
                    return
                except IngotError:
                    if self._closed or time.monotonic() > end:
                        raise
                    time.sleep(0.5)

    def _say(self, text: str) -> None:
        if text.partition(";")[0] not in self._said:
            self._said.add(text.partition(";")[0])
            self._warn(f"executor {self.address}: {text}")


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
