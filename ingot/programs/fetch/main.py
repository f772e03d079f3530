"""Download a file whose sha256 is known, completely or not at all."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.fetch.spec import FetchSpec

# The download gives up on a server that sends nothing for this long.
TIMEOUT_S = 60
TRIES = 3
PAUSE_S = 2.0
_BLOCK_BYTES = 1 << 20


def main() -> None:
    """Download the file of the specification in `argv[1]`."""
    specification = from_json(FetchSpec, Path(sys.argv[1]).read_bytes())
    try:
        fetch(specification.url, specification.sha256, Path(specification.output))
    except IngotError as error:
        sys.exit(str(error))


def fetch(url: str, sha256: str, output: Path, pause_s: float = PAUSE_S) -> None:
    """Download the file at the address to `output`, completely or not at all.

    The function retries after a broken connection, but not after a response that
    another attempt would not change.

    Raises: IngotError if the file cannot be downloaded, is incomplete, or has another
        sha256.
    """
    # Importing these takes 60 ms.
    from http.client import HTTPException
    from urllib.error import HTTPError

    partial = output.with_name(f"{output.name}.part")
    for attempt in range(1, TRIES + 1):
        try:
            found = _download(url, partial)
            break
        except HTTPError as error:
            error.close()
            problem = f"the server responded {error.code} {error.reason}"
            if error.code < 500 or attempt == TRIES:
                raise _failed(url, problem) from error
        except (OSError, HTTPException) as error:
            if attempt == TRIES:
                raise _failed(url, str(error)) from error
        time.sleep(pause_s * attempt)
    if found != sha256:
        partial.unlink()
        raise IngotError(
            f"{url}: not the pinned file; expected sha256 {sha256}, found {found}",
            "the file at this address has changed; if that is intended, write the new"
            " sha256 into the manifest",
        )
    os.replace(partial, output)


def _download(url: str, path: Path) -> str:
    """Write the content at the address to a file; return its sha256.

    Raises: OSError and HTTPException for network errors; ConnectionError if the
        connection ended early, which http.client does not report.
    """
    from urllib.request import Request, urlopen

    hasher, size_bytes = hashlib.sha256(), 0
    # The length of a compressed transfer is not that of the file.
    request = Request(url, headers={"Accept-Encoding": "identity"})
    with urlopen(request, timeout=TIMEOUT_S) as response, path.open("wb") as file:
        expected = response.headers.get("Content-Length", "")
        while block := response.read(_BLOCK_BYTES):
            hasher.update(block)
            size_bytes += len(block)
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    if expected.isdigit() and size_bytes != int(expected):
        raise ConnectionError(
            f"the connection ended early; expected {expected} bytes, found {size_bytes}"
        )
    return hasher.hexdigest()


def _failed(url: str, problem: str) -> IngotError:
    return IngotError(
        f"{url}: cannot be fetched; {problem}",
        "check the address and the network, or provide the file as kind: file",
    )


if __name__ == "__main__":
    main()
