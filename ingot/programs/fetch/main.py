"""Download a file of a known sha256: the whole file, or nothing."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from pathlib import Path

from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.programs.fetch.spec import FetchSpec

# A server that says nothing for this long is taken for dead.
TIMEOUT_S = 60
TRIES = 3
PAUSE_S = 2.0
_BLOCK_BYTES = 1 << 20


def main() -> None:
    """Fetch what the specification that `argv[1]` names."""
    specification = from_json(FetchSpec, Path(sys.argv[1]).read_bytes())
    try:
        fetch(specification.url, specification.sha256, Path(specification.output))
    except IngotError as error:
        sys.exit(str(error))


def fetch(url: str, sha256: str, output: Path, pause_s: float = PAUSE_S) -> None:
    """Write the file at the address to `output`, whole or not at all.

    A broken connection is tried again; an answer that another try would not change is
    not.

    Raises: IngotError where the file cannot be had, ends early, or is another.
    """
    # Imported late: planning does without them, and they take 60 ms.
    from http.client import HTTPException
    from urllib.error import HTTPError

    partial = output.with_name(f"{output.name}.part")
    for attempt in range(1, TRIES + 1):
        try:
            found = _download(url, partial)
            break
        except HTTPError as error:
            error.close()
            problem = f"the server answered {error.code} {error.reason}"
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
            "the file at this address has changed: where that is meant, write the new"
            " sha256 in the manifest",
        )
    os.replace(partial, output)


def _download(url: str, path: Path) -> str:
    """Write what the address holds; return its sha256.

    Raises: OSError and HTTPException for what the network does; ConnectionError where
    it ended early, which http.client does not say.
    """
    from urllib.request import Request, urlopen

    hasher, size_bytes = hashlib.sha256(), 0
    # Compressed transfer would have a length that is not the file's.
    request = Request(url, headers={"Accept-Encoding": "identity"})
    with urlopen(request, timeout=TIMEOUT_S) as answer, path.open("wb") as file:
        expected = answer.headers.get("Content-Length", "")
        while block := answer.read(_BLOCK_BYTES):
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
        "check the address and the network, or name the file as kind: file",
    )


if __name__ == "__main__":
    main()
