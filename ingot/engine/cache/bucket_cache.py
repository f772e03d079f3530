"""Use a bucket as shared cache: S3, Google Cloud Storage or Azure, through obstore.

Objects are named `ac/<key>` and `cas/<sha256>` below the address's prefix. Credentials
come from where the provider's own tools look: `AWS_ACCESS_KEY_ID`, instance roles,
`GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_KEY`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from ingot.engine.actions import Digest
from ingot.engine.cache.backend import CacheFailure, Kind, Timeouts
from ingot.errors import IngotError

# Objects are read in pieces: obstore's timeout applies to each request as a whole.
PIECE_BYTES = 16 << 20

# Patterns in obstore's error texts, and the message for each.
REASONS = (
    (r"^PermissionDeniedError", "access denied"),
    (r"^UnauthenticatedError", "authentication failed"),
    # Where a provider's own machines ask for their identity.
    (r"token request|//169\.254\.", "no valid credentials"),
    (r"performing (\w+) .*status code: (\d+[ \w]*)", r"\1 failed with \2"),
    (r"kind: Connect", "no connection"),
    (r"kind: Timeout", "no response"),
    (r"InvalidUri", "its endpoint is not a URL; expected http://HOST:PORT"),
)

EXPECTED = "expected BUCKET/PREFIX; docs/sharing.md lists the variables for credentials"

# May contain a password.
QUOTED = re.compile(r"\S+://\S+|\"[^\"]*\"")


class BucketBackend:
    """A prefix of a bucket."""

    def __init__(self, address: str, timeouts: Timeouts) -> None:
        """Prepare the client; send nothing yet.

        Raises: IngotError if the address or the provider's variables are wrong.
        """
        from obstore.store import from_url

        self.name = address
        seconds = timeouts.silent_s + PIECE_BYTES / timeouts.bytes_per_s
        try:
            self._store = from_url(
                address,
                client_options={
                    "connect_timeout": timedelta(seconds=timeouts.connect_s),
                    "timeout": timedelta(seconds=seconds),
                    # For a server in the user's own network, or in a test.
                    "allow_http": True,
                },
                retry_config={
                    "max_retries": 2,
                    "retry_timeout": timedelta(seconds=2 * timeouts.silent_s),
                },
            )
        except Exception as error:
            # The original text, which a traceback would show, may quote a key.
            raise IngotError(
                f"shared cache {address}: {_reason(error)}", EXPECTED
            ) from None

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the object in pieces; None if there is none."""
        import obstore

        name = f"{kind}/{digest.hash}"
        try:
            with _failures():
                size_bytes = obstore.head(self._store, name)["size"]
        except FileNotFoundError:
            return None
        return self._pieces(name, size_bytes)

    def _pieces(self, name: str, size_bytes: int) -> Iterator[bytes]:
        import obstore

        for start in range(0, size_bytes, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size_bytes)
            with _failures():
                piece = obstore.get_range(self._store, name, start=start, end=end)
            yield bytes(piece)

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Upload the file; a large one in several parts."""
        import obstore

        try:
            with _failures():
                obstore.put(
                    self._store, f"{kind}/{digest.hash}", path, max_concurrency=2
                )
        except FileNotFoundError as error:
            raise CacheFailure("the bucket does not exist") from error

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs that have no object."""
        import obstore

        found = set()
        for digest in digests:
            try:
                with _failures():
                    obstore.head(self._store, f"cas/{digest.hash}")
            except FileNotFoundError:
                found.add(digest)
        return found


@contextmanager
def _failures() -> Iterator[None]:
    """Raise every failure as CacheFailure, except that an object does not exist."""
    try:
        yield
    except FileNotFoundError:
        raise
    except BaseException as error:
        # For an endpoint that is not a URL obstore panics, which is not an Exception.
        if not isinstance(error, Exception) and "InvalidUri" not in str(error):
            raise
        raise CacheFailure(_reason(error)) from error


def _reason(error: BaseException) -> str:
    """Return a short reason, without URLs: they may contain a password."""
    text = f"{type(error).__name__} {error}"
    for pattern, words in REASONS:
        if found := re.search(pattern, text):
            return found.expand(words)
    first = str(error).partition("\n")[0].rpartition(" error: ")[2].rstrip(".")
    words = QUOTED.sub("...", first)[:200] or type(error).__name__
    return words[0].lower() + words[1:]
