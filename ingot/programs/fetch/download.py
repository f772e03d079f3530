"""Download the file at an address, completely or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from ingot.errors import IngotError

# The download gives up on a server that sends nothing for this long.
TIMEOUT_S = 60
TRIES = 3
PAUSE_S = 2.0
NOT_FOUND = 404
PARTIAL = 206
_REFUSED = (401, 403)
_BLOCK_BYTES = 1 << 20


class NotFound(IngotError):
    """The server has no such file."""


class Refused(IngotError):
    """The server does not give the file to this user."""


def download(url: str, output: Path, headers: dict[str, str] | None = None) -> None:
    """Write the content at the address to `output`, completely or not at all.

    The function goes on where a connection broke, but does not retry after a response
    that another attempt would not change.

    Raises: NotFound if the server has no such file; Refused if it does not give it;
        IngotError if it cannot be downloaded, or is incomplete.
    """
    # Importing these takes 60 ms.
    from http.client import HTTPException
    from urllib.error import HTTPError

    partial = output.with_name(f"{output.name}.part")
    partial.unlink(missing_ok=True)
    for attempt in range(1, TRIES + 1):
        try:
            _download(url, partial, headers or {})
            break
        except HTTPError as error:
            error.close()
            problem = f"the server responded {error.code} {error.reason}"
            if error.code == NOT_FOUND:
                raise NotFound(*_failure(url, problem)) from error
            if error.code in _REFUSED:
                raise Refused(*_failure(url, problem)) from error
            if error.code < 500 or attempt == TRIES:
                raise IngotError(*_failure(url, problem)) from error
        except (OSError, HTTPException) as error:
            if attempt == TRIES:
                raise IngotError(*_failure(url, str(error))) from error
        time.sleep(PAUSE_S * attempt)
    os.replace(partial, output)


def download_range(
    url: str, start: int, end: int, headers: dict[str, str] | None = None
) -> bytes:
    """Return the bytes of the content at the address from `start` up to `end`.

    Raises: IngotError if the server does not give them.
    """
    from http.client import HTTPException

    request = _request(url, headers or {})
    request.add_header("Range", f"bytes={start}-{end - 1}")
    try:
        with _open(request) as response:
            if response.status != PARTIAL:
                response.read(start)  # it sends the whole file
            found: bytes = response.read(end - start)
    except (OSError, HTTPException) as error:
        raise IngotError(*_failure(url, str(error))) from error
    if len(found) < end - start:
        problem = f"expected {end} bytes or more, found {start + len(found)}"
        raise IngotError(*_failure(url, problem))
    return found


def _request(url: str, headers: dict[str, str]) -> Any:
    """Return a request for the content at the address."""
    from urllib.request import Request

    # The length of a compressed transfer is not that of the file.
    request = Request(url, headers={"Accept-Encoding": "identity"})
    for name, value in headers.items():
        # A token is not for the server that this one redirects to.
        request.add_unredirected_header(name, value)
    return request


def _open(request: Any) -> Any:
    from urllib.request import urlopen

    return urlopen(request, timeout=TIMEOUT_S)


def _download(url: str, path: Path, headers: dict[str, str]) -> None:
    """Write the content at the address to a file.

    Raises: OSError and HTTPException for network errors; ConnectionError if the
        connection ended early, which http.client does not report.
    """
    request = _request(url, headers)
    found_bytes = path.stat().st_size if path.exists() else 0
    if found_bytes:
        request.add_header("Range", f"bytes={found_bytes}-")
    size_bytes = 0
    with (
        _open(request) as response,
        path.open("ab" if response.status == PARTIAL else "wb") as file,
    ):
        expected = response.headers.get("Content-Length", "")
        while block := response.read(_BLOCK_BYTES):
            size_bytes += len(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    if expected.isdigit() and size_bytes != int(expected):
        raise ConnectionError(
            f"the connection ended early; expected {expected} bytes, found {size_bytes}"
        )


def _failure(url: str, problem: str) -> tuple[str, str]:
    """Return the message and the hint of an error."""
    return (
        f"{url}: cannot be fetched; {problem}",
        "check the address and the network, or provide the file as kind: file",
    )
