"""Provide an HTTP cache that misbehaves on demand, and machines that share it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

from ingot.engine.action_keys import encode_action
from ingot.engine.actions import Action, Digest
from ingot.engine.cache.backend import Timeouts
from ingot.engine.cache.cache_address import connect
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.executor import Executor
from ingot.engine.store import Store
from ingot.engine.trust import Trust, signer

# What is hung is waited for no longer than this, by tests of just that.
IMPATIENT = Timeouts(connect_s=0.5, silent_s=0.5, bytes_per_s=1e6)


class CacheServer(ThreadingHTTPServer):
    """Bazel's HTTP protocol over a dictionary; `fault` says what goes wrong."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.fault = ""
        self.password = ""
        self.refuses: set[str] = set()  # paths that are not to be written
        self.asked: Counter[str] = Counter()
        self.order: list[str] = []
        self.over = Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/cache"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: CacheServer

    def do_GET(self) -> None:
        if self.refused():
            return
        content = self.server.files.get(self.path)
        if content is None:
            self.answer(404)
            return
        fault = self.server.fault if "/cas/" in self.path else ""
        if fault == "another blob":
            content = bytes(len(content))
        if fault == "longer":
            content += b"more"
        said = len(content)
        if fault == "says more than it sends":
            said += 10
        if fault == "says less than it sends":
            said -= 1
        if fault == "ends too soon":
            content = content[: len(content) // 2]
        self.answer(200, content, said)

    def do_HEAD(self) -> None:
        if not self.refused():
            self.answer(200 if self.path in self.server.files else 404)

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.refused():
            return
        if self.server.fault == "takes its time":
            time.sleep(0.7)
        self.server.order.append(self.path)
        self.server.files[self.path] = content
        self.answer(201)

    def refused(self) -> bool:
        """Whether this request went wrong as the test wants it to."""
        server, method = self.server, self.command
        server.asked[method] += 1
        if server.password and self.headers["Authorization"] != server.password:
            self.answer(401)
        elif server.fault == "hangs":
            server.over.wait(20)
            self.close_connection = True
        elif server.fault == "trickles" and method == "GET":
            self.trickle()
        elif server.fault.isdigit():
            self.answer(int(server.fault))
        elif method == "PUT" and self.path in server.refuses:
            self.answer(409)
        elif server.fault == "full" and method == "PUT":
            self.answer(507)
        elif server.fault == "read-only" and method == "PUT":
            self.answer(403)
        else:
            return False
        return True

    def trickle(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        for _ in range(1000):
            self.wfile.write(b"x")
            time.sleep(0.1)

    def answer(self, status: int, content: bytes = b"", said: int = -1) -> None:
        self.send_response(status)
        size = len(content) if said < 0 else said
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(content)
        if size != len(content):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[CacheServer]:
    """Yield a server that runs until the block ends."""
    server = CacheServer()
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


class Machine:
    """A checkout with its own store and, with `address`, a shared cache."""

    def __init__(
        self,
        root: Path,
        address: str = "",
        writes: bool = True,
        environment: dict[str, str] | None = None,
        timeouts: Timeouts | None = None,
        trust: Trust | None = None,
    ) -> None:
        self.root = root
        self.reported: list[str] = []
        self.events: list[tuple[str, str]] = []
        root.mkdir(exist_ok=True)
        self.store = Store(root / "store", self.reported.append)
        self.shared = None
        if address:
            waits = timeouts or Timeouts()
            none = str(root / "none")
            known = {"NETRC": none, "XDG_CONFIG_HOME": none, **(environment or {})}
            self.shared = SharedCache(
                connect(address, known, waits),
                self.store,
                self.reported.append,
                writes,
                waits,
                trust=trust,
                sign=signer(known),
            )
        self.executor = Executor(
            root, self.store, self._ended, self.shared, trust=trust
        )

    def _ended(self, task: str, source: str, wall_ms: float) -> None:
        self.events.append((task, source))

    def key(self, action: Action) -> Digest:
        """Return the key of an action whose inputs are there."""
        return encode_action(self.executor.resolve(action)).key

    def build(self, *actions: Action) -> list[str]:
        """Run what is not current and send it; return how each got its outputs."""
        self.events.clear()
        for action in actions:
            if self.executor.is_up_to_date(action) or self.executor.restore(action):
                continue
            self.executor.execute(action)
        if self.shared is not None:
            self.shared.finish(silent_s=600)
        return [source for _, source in self.events]
