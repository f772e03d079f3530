"""A bucket as shared cache: S3, Google Cloud Storage or Azure, through obstore.

Objects are named `ac/<key>` and `cas/<sha256>` below the address's prefix. Credentials
are found as the provider's own tools find them: `AWS_ACCESS_KEY_ID`, instance roles,
`GOOGLE_APPLICATION_CREDENTIALS`, `AZURE_STORAGE_ACCOUNT_KEY`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from pathlib import Path

from ingot.edges.shared.remote import CacheFailure, Kind, Patience
from ingot.values import Digest

# Asked for piece by piece: obstore's time limit is for one request as a whole.
PIECE_BYTES = 16 << 20


class ObjectRemote:
    """A prefix of a bucket."""

    def __init__(self, address: str, patience: Patience) -> None:
        """Keep the place; nothing is sent yet."""
        from obstore.store import from_url

        self.name = address
        seconds = patience.silent_s + PIECE_BYTES / patience.bytes_per_s
        self._store = from_url(
            address,
            client_options={
                "connect_timeout": timedelta(seconds=patience.connect_s),
                "timeout": timedelta(seconds=seconds),
                # A server in one's own network, or a test's.
                "allow_http": True,
            },
            retry_config={
                "max_retries": 2,
                "retry_timeout": timedelta(seconds=2 * patience.silent_s),
            },
        )

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        """Return the object in pieces; None where there is none."""
        import obstore

        name = f"{kind}/{digest.hash}"
        try:
            size_bytes = obstore.head(self._store, name)["size"]
        except FileNotFoundError:
            return None
        except Exception as error:
            raise _failure(error) from error
        return self._pieces(name, size_bytes)

    def _pieces(self, name: str, size_bytes: int) -> Iterator[bytes]:
        import obstore

        for start in range(0, size_bytes, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size_bytes)
            try:
                piece = obstore.get_range(self._store, name, start=start, end=end)
            except Exception as error:
                raise _failure(error) from error
            yield bytes(piece)

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        """Send the file, a large one in several parts."""
        import obstore

        try:
            obstore.put(self._store, f"{kind}/{digest.hash}", path, max_concurrency=2)
        except Exception as error:
            raise _failure(error) from error

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        """Return the blobs that have no object."""
        import obstore

        found = set()
        for digest in digests:
            try:
                obstore.head(self._store, f"cas/{digest.hash}")
            except FileNotFoundError:
                found.add(digest)
            except Exception as error:
                raise _failure(error) from error
        return found


def _failure(error: Exception) -> CacheFailure:
    """Return the failure in one line; obstore's own text goes on for many."""
    for word, text in (
        ("PermissionDenied", "it refuses access"),
        ("Unauthenticated", "it refuses who asks"),
        ("CredentialsNotFound", "there are no credentials for it"),
    ):
        if word in f"{type(error).__name__} {error}":
            return CacheFailure(text)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return CacheFailure(lines[0][:200])
