"""Download the file at an address, completely or not at all."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ingot.errors import IngotError

# The download gives up on a server that sends nothing for this long.
TIMEOUT_S = 60
TRIES = 3
PAUSE_S = 2.0
NOT_FOUND = 404
_BLOCK_BYTES = 1 << 20


class NotFound(IngotError):
    """The server has no such file."""


def download(url: str, output: Path, headers: dict[str, str] | None = None) -> None:
    """Write the content at the address to `output`, completely or not at all.

    The function retries after a broken connection, but not after a response that
    another attempt would not change.

    Raises: NotFound if the server has no such file; IngotError if it cannot be
        downloaded, or is incomplete.
    """
    # Importing these takes 60 ms.
    from http.client import HTTPException
    from urllib.error import HTTPError

    partial = output.with_name(f"{output.name}.part")
    for attempt in range(1, TRIES + 1):
        try:
            _download(url, partial, headers or {})
            break
        except HTTPError as error:
            error.close()
            problem = f"the server responded {error.code} {error.reason}"
            if error.code == NOT_FOUND:
                raise NotFound(*_failure(url, problem)) from error
            if error.code < 500 or attempt == TRIES:
                raise IngotError(*_failure(url, problem)) from error
        except (OSError, HTTPException) as error:
            if attempt == TRIES:
                raise IngotError(*_failure(url, str(error))) from error
        time.sleep(PAUSE_S * attempt)
    os.replace(partial, output)


def _download(url: str, path: Path, headers: dict[str, str]) -> None:
    """Write the content at the address to a file.

    Raises: OSError and HTTPException for network errors; ConnectionError if the
        connection ended early, which http.client does not report.
    """
    from urllib.request import Request, urlopen

    size_bytes = 0
    # The length of a compressed transfer is not that of the file.
    request = Request(url, headers={"Accept-Encoding": "identity", **headers})
    with urlopen(request, timeout=TIMEOUT_S) as response, path.open("wb") as file:
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
