"""Speak with a registry as the OCI distribution specification says.

The client is urllib3, as elsewhere in ingot; every response has a deadline. A registry
without the API of referrers, which came with version 1.1, gets them under the tag
`sha256-<hex>`, as the specification says for such registries.

Source: OCI distribution specification 1.1; docker.com, "Token authentication".
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

from ingot.engine.cache.backend import Timeouts, read_with_deadline
from ingot.engine.cache.http_deadline import limits, timed
from ingot.errors import IngotError
from ingot.release.oci_documents import (
    DOCUMENT_BYTES,
    INDEX,
    MANIFEST,
    Descriptor,
    Document,
    index,
    read_descriptor,
)
from ingot.release.registry_login import Challenge, read_challenge
from ingot.release.repository import Broken, Repository

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

TRIES = 3
PIECE_BYTES = 1 << 18
ERROR_BYTES = 1 << 16
# Of a list of tags, a registry may send any number of pages.
PAGES = 1000

LOGIN = "`docker login` writes the user and password that are used here"

_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')


@dataclass(frozen=True)
class Reply:
    """What a registry answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes  # of a small reply
    pieces: Generator[bytes, None, None]  # of one that is read as it arrives

    @property
    def media_type(self) -> str:
        """Return the media type without parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip()


class Registry(Repository):
    """A repository of a registry."""

    def __init__(
        self,
        base: str,
        path: str,
        authorization: str = "",
        timeouts: Timeouts | None = None,
    ) -> None:
        """Use the repository `path` of the registry at `base`; send nothing yet.

        `authorization` is "Basic ..." with the user's name and password, if any.
        """
        self.name = f"oci://{urlsplit(base).netloc}/{path}"
        self._base = base
        self._path = path
        self._basic = authorization
        self._authorization = ""
        self._timeouts = timeouts or Timeouts()
        self._pool = _pool(base, self._timeouts)

    def has_blob(self, blob: Descriptor) -> bool:
        """Ask for the blob's size."""
        return self._ask("HEAD", f"blobs/{blob.digest}", allowed=(404,)).status == 200

    def put_blob(self, blob: Descriptor, content: Path | bytes) -> None:
        """Upload the blob; after a broken connection, again."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._put_blob(blob, content)
            except Broken as error:
                if attempt == TRIES:
                    raise IngotError(error.message, error.hint) from error

    def _put_blob(self, blob: Descriptor, content: Path | bytes) -> None:
        started = self._ask("POST", "blobs/uploads/", {"Content-Length": "0"})
        place = urljoin(f"{self._base}/", started.headers.get("Location", ""))
        if urlsplit(place).scheme not in ("http", "https"):
            raise IngotError(f"{self.name}: it names no address for an upload")
        joint = "&" if "?" in place else "?"
        body = content
        if isinstance(content, Path):
            body = read_with_deadline(content, self._timeouts)  # type: ignore[assignment]
        self._ask(
            "PUT",
            f"{place}{joint}{urlencode({'digest': blob.digest})}",
            {
                "Content-Type": "application/octet-stream",
                "Content-Length": str(blob.size_bytes),
            },
            body=body,
            size_bytes=blob.size_bytes,
        )

    def read_blob(
        self, blob: Descriptor, start: int
    ) -> tuple[int, Generator[bytes, None, None]]:
        """Ask for the rest of the blob; a registry may send all of it."""
        wanted = {"Range": f"bytes={start}-"} if start else {}
        reply = self._ask(
            "GET",
            f"blobs/{blob.digest}",
            {"Accept-Encoding": "identity", **wanted},
            size_bytes=blob.size_bytes,
            streams=True,
        )
        return start if reply.status == 206 else 0, reply.pieces

    def get_document(self, reference: str) -> Document | None:
        """Ask for a document."""
        reply = self._ask(
            "GET",
            f"manifests/{quote(reference, safe=':')}",
            {"Accept": f"{INDEX}, {MANIFEST}"},
            allowed=(404,),
            size_bytes=DOCUMENT_BYTES,
        )
        if reply.status == 404:
            return None
        return Document(reply.media_type, reply.content)

    def put_document(self, document: Document, tag: str = "") -> None:
        """Upload a document; note it as referrer where the registry does not."""
        reply = self._ask(
            "PUT",
            f"manifests/{tag or document.digest}",
            {"Content-Type": document.media_type},
            body=document.content,
        )
        stored = reply.headers.get("Docker-Content-Digest", document.digest)
        if stored != document.digest:
            raise IngotError(
                f"{self.name}: it stored another document than it was sent;"
                f" expected {document.digest}, found {stored}"
            )
        value = document.read(self.name)
        if "subject" in value and "OCI-Subject" not in reply.headers:
            subject = read_descriptor(value["subject"], self.name)
            kind = str(value.get("artifactType", ""))
            self._note(subject.digest, document.descriptor(artifact_type=kind))

    def delete_document(self, digest: str) -> None:
        """Ask to delete a document; the registry frees its blobs when it likes."""
        self._ask("DELETE", f"manifests/{digest}", allowed=(404,))

    def tags(self) -> tuple[str, ...]:
        """Return all tags, page by page."""
        found: list[str] = []
        place = "tags/list?n=1000"
        for _ in range(PAGES):
            reply = self._ask("GET", place, allowed=(404,), size_bytes=DOCUMENT_BYTES)
            if reply.status == 404:
                break
            names = self._json(reply.content).get("tags") or []
            if not isinstance(names, list) or not all(
                isinstance(x, str) for x in names
            ):
                raise IngotError(f"{self.name}: its list of tags is none")
            found += names
            more = _NEXT.search(reply.headers.get("Link", ""))
            if more is None:
                break
            place = urljoin(f"{self._base}/v2/{self._path}/{place}", more[1])
        return tuple(dict.fromkeys(found))

    def referrers(self, digest: str) -> tuple[Descriptor, ...]:
        """Return the referrers of the API, or those under the tag in its place."""
        reply = self._ask(
            "GET", f"referrers/{digest}", allowed=(404,), size_bytes=DOCUMENT_BYTES
        )
        if reply.status == 200 and reply.media_type == INDEX:
            found = Document(INDEX, reply.content)
            return found.descriptors("manifests", self.name)
        return self._noted(digest)

    def _noted(self, digest: str) -> tuple[Descriptor, ...]:
        found = self.get_document(digest.replace(":", "-"))
        return () if found is None else found.descriptors("manifests", self.name)

    def _note(self, subject: str, referrer: Descriptor) -> None:
        noted = self._noted(subject)
        if referrer.digest not in {item.digest for item in noted}:
            self.put_document(index((*noted, referrer)), subject.replace(":", "-"))

    def _ask(
        self,
        method: str,
        place: str,
        headers: Mapping[str, str] | None = None,
        *,
        allowed: tuple[int, ...] = (),
        body: Any = None,
        size_bytes: int = 0,
        streams: bool = False,
    ) -> Reply:
        """Return the reply, which is a success or has an allowed status.

        Raises: Broken for a connection that broke; IngotError for another status.
        """
        url = urljoin(f"{self._base}/v2/{self._path}/", place)
        response = self._send(method, url, headers or {}, body, size_bytes)
        if response.status == 401:
            challenge = response.headers.get("WWW-Authenticate", "")
            refused = self._refused(method, place, response)
            if not self._log_in(challenge):
                raise refused
            if body is not None and not isinstance(body, bytes):
                raise Broken(f"{self.name}: it asks for a password during an upload")
            response = self._send(method, url, headers or {}, body, size_bytes)
        if not 200 <= response.status < 300 and response.status not in allowed:
            raise self._refused(method, place, response)
        pieces = self._pieces(response)
        if streams:
            return Reply(response.status, response.headers, b"", pieces)
        content = self._whole(pieces, DOCUMENT_BYTES)
        return Reply(response.status, response.headers, content, pieces)

    def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Any,
        size_bytes: int,
    ) -> BaseHTTPResponse:
        import urllib3

        given = dict(headers)
        # Where a registry sends us to must not learn its password.
        is_here = urlsplit(url)[:2] == urlsplit(self._base)[:2]
        if self._authorization and is_here:
            given["Authorization"] = self._authorization
        # What is streamed cannot be sent again.
        once = not (body is None or isinstance(body, bytes))
        try:
            with limits(self._timeouts, size_bytes):
                return self._pool.request(
                    method,
                    url,
                    headers=given,
                    body=body,
                    preload_content=False,
                    redirect=method in ("GET", "HEAD"),
                    retries=False if once else None,
                )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Broken(f"{self.name}: {method} failed: {_reason(error)}") from error

    def _log_in(self, challenge: str) -> bool:
        """Return whether there is something new to try after a 401."""
        asked = read_challenge(challenge)
        if asked is None or (asked.kind == "basic" and not self._basic):
            return False
        if asked.kind == "basic":
            self._authorization = self._basic
        else:
            self._authorization = f"Bearer {self._token(asked)}"
        return True

    def _token(self, asked: Challenge) -> str:
        """Return the token that the registry's own server gives for this user."""
        secure = urlsplit(self._base).scheme == "https"
        if urlsplit(asked.realm).scheme not in (
            ("https",) if secure else ("http", "https")
        ):
            raise IngotError(
                f"{self.name}: it asks to log in at {asked.realm!r}; expected https"
            )
        query = urlencode(
            [x for x in (("service", asked.service), ("scope", asked.scope)) if x[1]]
        )
        before, self._authorization = self._authorization, ""
        headers = {"Authorization": self._basic} if self._basic else {}
        response = self._send(
            "GET", f"{asked.realm}?{query}", headers, None, ERROR_BYTES
        )
        self._authorization = before
        if response.status != 200:
            raise self._refused("GET", "its token", response)
        value = self._json(self._whole(self._pieces(response), ERROR_BYTES))
        token = value.get("token") or value.get("access_token")
        if not isinstance(token, str) or re.fullmatch(r"[!-~]+", token) is None:
            raise IngotError(f"{self.name}: it gave no token that a header can hold")
        return token

    def _refused(
        self, method: str, place: str, response: BaseHTTPResponse
    ) -> IngotError:
        """Return the error about a status, in the registry's own words."""
        status = response.status
        words = ""
        try:
            value = self._json(self._whole(self._pieces(response), ERROR_BYTES))
            first = value.get("errors", [{}])[0]
            words = f"{first.get('code', '')}: {first.get('message', '')}"
        except (IngotError, LookupError, AttributeError, TypeError):
            pass
        words = "".join(x for x in words[:200] if x.isprintable()).strip(": ")
        shown = place.partition("?")[0].rpartition("/v2/")[2]
        hints = {
            401: LOGIN,
            403: LOGIN,
            405: "a registry deletes only where it is told to: storage.delete.enabled",
            429: "it limits how often it is asked; try again later",
        }
        return IngotError(
            f"{self.name}: {method} {shown} failed with {status}"
            f"{f' ({words})' if words else ''}",
            hints.get(status, ""),
        )

    def _whole(self, pieces: Generator[bytes, None, None], most_bytes: int) -> bytes:
        content = bytearray()
        with closing(pieces):
            for piece in pieces:
                content += piece
                if len(content) > most_bytes:
                    raise IngotError(
                        f"{self.name}: it sent more than {most_bytes} bytes in place"
                        " of a document"
                    )
        return bytes(content)

    def _pieces(self, response: BaseHTTPResponse) -> Generator[bytes, None, None]:
        import urllib3

        try:
            while piece := response.read1(PIECE_BYTES):
                yield piece
            response.release_conn()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Broken(f"{self.name}: {_reason(error)}") from error
        finally:
            response.close()

    def _json(self, content: bytes) -> dict[str, Any]:
        try:
            value = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise IngotError(f"{self.name}: it sent no JSON") from error
        if not isinstance(value, dict):
            raise IngotError(f"{self.name}: it sent another JSON than an object")
        return value


def _pool(base: str, timeouts: Timeouts) -> PoolManager:
    """Return the connections, through the proxy that the environment names."""
    import urllib3

    retries = urllib3.Retry(
        total=TRIES,
        redirect=5,
        status_forcelist=(500, 502, 503, 504),
        allowed_methods=("GET", "HEAD", "POST", "PUT", "DELETE"),
        backoff_factor=0.1,
        raise_on_status=False,
    )
    options: dict[str, Any] = {
        "retries": retries,
        "timeout": urllib3.Timeout(connect=timeouts.connect_s, read=timeouts.silent_s),
    }
    parts = urlsplit(base)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.netloc):
        manager: PoolManager = urllib3.ProxyManager(proxy, **options)
    else:
        manager = urllib3.PoolManager(**options)
    manager.pool_classes_by_scheme = {
        "http": timed(urllib3.HTTPConnectionPool),
        "https": timed(urllib3.HTTPSConnectionPool),
    }
    return manager


def _reason(error: Exception) -> str:
    """Return a short reason, without the URL and the pool's repr."""
    cause = getattr(error, "reason", None) or error
    text = str(cause).rpartition("] ")[2].rpartition(": ")[2]
    return text.rstrip(")") or type(cause).__name__
