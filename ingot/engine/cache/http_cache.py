"""Speak Bazel's HTTP cache protocol: GET, HEAD and PUT of /ac/<key> and /cas/<sha256>.

nginx with its dav module, bazel-remote and others serve it. The client is urllib3,
because it streams in both directions, its pool serves many threads, and it needs no
other package.

Source: bazel.build/remote/caching, "HTTP caching protocol".
"""

from __future__ import annotations

import contextlib
import urllib.request
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ingot.engine.actions import Digest
from ingot.engine.cache.backend import (
    RESULT_BYTES,
    BlobRejected,
    CacheFailure,
    Kind,
    Timeouts,
    read_with_deadline,
)
from ingot.engine.cache.http_deadline import TooSlow, limits, timed

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, HTTPConnectionPool, ProxyManager

PIECE_BYTES = 1 << 18

# A smaller blob is uploaded without asking: the question costs as much as it saves.
ASK_BYTES = 1 << 16

# A proxy in front of a busy cache responds with these; they are retried.
PASSING = (500, 502, 503, 504)


class HttpBackend:
    """A cache behind one URL."""

    def __init__(self, url: str, authorization: str | None, timeouts: Timeouts) -> None:
        """Prepare the connection pool; send nothing yet."""
        import urllib3

        self.name = url
        self._url = url.rstrip("/")
        self._timeouts = timeouts
        retries = urllib3.Retry(
            total=2,
            redirect=False,
            status_forcelist=PASSING,
            allowed_methods=("GET", "HEAD", "PUT"),
            backoff_factor=0.1,
            raise_on_status=False,
        )
        self._headers = {"Authorization": authorization} if authorization else {}
        self._pool, self._place = _pool(
            self._url,
            retries=retries,
            timeout=urllib3.Timeout(connect=timeouts.connect_s, read=timeouts.silent_s),
            maxsize=32,
        )

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the content in pieces as they arrive."""
        # Packing a small entry takes longer than sending it.
        small = kind == "ac" or digest.size_bytes <= ASK_BYTES
        wanted = {} if small else {"Accept-Encoding": _compressions()}
        response = self._ask("GET", kind, digest, wanted)
        if response.status == HTTPStatus.NOT_FOUND:
            response.drain_conn()
            return None
        _check_status(response, "GET")
        return _pieces(response)

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Upload the file in pieces."""
        size = path.stat().st_size
        # A stream cannot be sent again, so only a small file, sent whole, is retried.
        body = path.read_bytes() if size <= ASK_BYTES else None
        response = self._ask(
            "PUT",
            kind,
            digest,
            {"Content-Length": str(size), "Content-Type": "application/octet-stream"},
            body=read_with_deadline(path, self._timeouts) if body is None else body,
            **({"retries": False} if body is None else {}),
        )
        response.drain_conn()
        _check_status(response, "PUT")

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the small blobs, and the large ones that are not there."""
        return {item for item in digests if self._is_missing(item)}

    def _is_missing(self, digest: Digest) -> bool:
        if digest.size_bytes <= ASK_BYTES:
            return True
        response = self._ask("HEAD", "cas", digest, {})
        response.drain_conn()
        return response.status != HTTPStatus.OK

    def _ask(
        self,
        method: str,
        kind: Kind,
        digest: Digest,
        headers: dict[str, str],
        **options: object,
    ) -> BaseHTTPResponse:
        import urllib3

        # Nothing but a blob or a result has a body that is read.
        size_bytes = 0
        if method == "GET":
            size_bytes = RESULT_BYTES if kind == "ac" else digest.size_bytes
        try:
            with limits(self._timeouts, size_bytes):
                return self._pool.urlopen(
                    method,
                    f"{self._place}/{kind}/{digest.hash}",
                    headers=self._headers | headers,
                    redirect=False,
                    preload_content=False,
                    **options,  # type: ignore[arg-type]
                )
        except urllib3.exceptions.HTTPError as error:
            raise CacheFailure(_reason(error)) from error
        except OSError as error:
            raise CacheFailure(error.strerror or str(error)) from error


def _pool(url: str, **options: Any) -> tuple[HTTPConnectionPool | ProxyManager, str]:
    """Return the connections, and the path of the cache on them.

    They go through the proxy that the environment names.
    """
    import urllib3

    kinds: dict[str, Any] = {
        "http": timed(urllib3.HTTPConnectionPool),
        "https": timed(urllib3.HTTPSConnectionPool),
    }
    parts = urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.netloc):
        manager = urllib3.ProxyManager(proxy, **options)
        manager.pool_classes_by_scheme = kinds
        return manager, url
    # A pool manager parses each request's URL, which adds half to the request's time.
    address = urllib3.util.parse_url(url)
    pool = kinds[parts.scheme](address.host or "", address.port, **options)
    return pool, parts.path


def _compressions() -> str:
    """Return what can be unpacked here; nginx and bazel-remote compress if asked."""
    from urllib3.util.request import ACCEPT_ENCODING

    return ACCEPT_ENCODING


def _pieces(response: BaseHTTPResponse) -> Iterator[bytes]:
    import urllib3

    try:
        # Read what has arrived: waiting for a full piece might take forever.
        while piece := response.read1(PIECE_BYTES, decode_content=True):
            yield piece
        response.release_conn()
    except urllib3.exceptions.HTTPError as error:
        raise CacheFailure(_reason(error)) from error
    except OSError as error:
        raise CacheFailure(error.strerror or str(error)) from error
    finally:
        # A connection that was read halfway cannot serve another request.
        with contextlib.suppress(OSError):
            response.close()


def _check_status(response: BaseHTTPResponse, method: str) -> None:
    if 200 <= response.status < 300:
        return
    response.close()
    with contextlib.suppress(ValueError):
        words = HTTPStatus(response.status).phrase
        text = f"{method} failed with {response.status} {words}"
        if response.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
            raise BlobRejected(text)
        raise CacheFailure(text)
    raise CacheFailure(f"{method} failed with {response.status}")


def _reason(error: Exception) -> str:
    """Return a short reason, without the URL and the pool's repr."""
    import urllib3

    cause = getattr(error, "reason", None) or error
    # First: it is also a kind of timeout.
    if isinstance(cause, urllib3.exceptions.NewConnectionError):
        return f"no connection: {str(cause).rpartition('] ')[2]}"
    if isinstance(cause, urllib3.exceptions.ConnectTimeoutError):
        return "it does not accept connections"
    if isinstance(cause.__cause__, TooSlow):
        return "the transfer is too slow"
    if isinstance(cause, urllib3.exceptions.TimeoutError):
        return "no response"
    if isinstance(cause, urllib3.exceptions.ProtocolError):
        return "the transfer was interrupted"
    return str(cause).rpartition(": ")[2] or type(cause).__name__
