"""Read and write the files of an OCI image layout: in a folder, or in a bucket."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from ingot.errors import IngotError

PIECE_BYTES = 1 << 20
# A bucket is read in larger pieces: each is a request.
BUCKET_PIECE_BYTES = 16 << 20


class LayoutFiles(Protocol):
    """Files by name. A file is there whole or not at all. Methods raise IngotError."""

    name: str

    def size(self, name: str) -> int | None:
        """Return the size of a file; None if there is none."""

    def read(self, name: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield a file's content from `start` on."""

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file; if `pieces` raises an error, nothing is written."""

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the files in a folder."""

    def remove(self, name: str) -> None:
        """Remove a file."""


class FolderFiles(LayoutFiles):
    """The files of a folder, which is created by what is first written."""

    def __init__(self, folder: Path) -> None:
        """Use this folder."""
        self.name = str(folder)
        self._folder = folder

    def size(self, name: str) -> int | None:
        """Return the size of a file; None if there is none."""
        try:
            return (self._folder / name).stat().st_size
        except OSError:
            return None

    def read(self, name: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield a file's content from `start` on."""
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(start)
                while piece := file.read(PIECE_BYTES):
                    yield piece
        except OSError as error:
            raise self._error(name, "read", error) from error

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write a file beside, and rename it."""
        path = self._folder / name
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            raise self._error(name, "written", error) from error
        finally:
            partial.unlink(missing_ok=True)

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the files in a folder."""
        return tuple(f"{folder}/{x.name}" for x in (self._folder / folder).iterdir())

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self._folder / name).unlink(missing_ok=True)

    def _error(self, name: str, verb: str, error: OSError) -> IngotError:
        reason = error.strerror or str(error)
        return IngotError(f"{self.name}: {name}: cannot be {verb}; {reason}")


class BucketFiles(LayoutFiles):
    """Objects below a prefix of a bucket, through obstore."""

    def __init__(self, address: str) -> None:
        """Prepare the client; send nothing yet.

        Raises: IngotError if the address or the provider's variables are wrong, or
            obstore is not installed.
        """
        self.name = address
        try:
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            hint = "run: pip install 'ingot-build[s3]'"
            raise IngotError(f"{address}: obstore is not installed", hint) from error
        try:
            options: Any = {"timeout": timedelta(seconds=300), "allow_http": True}
            self._store = from_url(address, client_options=options)
        except Exception as error:
            # The original text may quote a key.
            message = f"{address}: not a bucket, or its credentials are missing"
            hint = "expected s3://BUCKET/PREFIX; docs/sharing.md lists the variables"
            raise IngotError(message, hint) from error

    def size(self, name: str) -> int | None:
        """Return the size of an object; None if there is none."""
        import obstore

        try:
            return int(obstore.head(self._store, name)["size"])
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._error("HEAD", name, error) from error

    def read(self, name: str, start: int = 0) -> Generator[bytes, None, None]:
        """Yield an object's content from `start` on."""
        import obstore

        size_bytes = self.size(name)
        if size_bytes is None:
            raise IngotError(f"{self.name}: {name}: there is no such object")
        try:
            for first in range(start, size_bytes, BUCKET_PIECE_BYTES):
                end = min(first + BUCKET_PIECE_BYTES, size_bytes)
                piece = obstore.get_range(self._store, name, start=first, end=end)
                yield bytes(piece)
        except Exception as error:
            raise self._error("GET", name, error) from error

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """Write an object, which appears when it is whole; a large one in parts."""
        import obstore

        rest = iter(pieces)
        first = bytearray()
        for piece in rest:
            first += piece
            if len(first) > BUCKET_PIECE_BYTES:
                break
        is_small = len(first) <= BUCKET_PIECE_BYTES
        try:
            content = bytes(first) if is_small else chain([bytes(first)], rest)
            obstore.put(self._store, name, content)
        except IngotError:
            raise
        except Exception as error:
            raise self._error("PUT", name, error) from error

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the objects in a folder."""
        import obstore

        try:
            listed = obstore.list(self._store, prefix=folder)
            return tuple(str(x["path"]) for batch in listed for x in batch)
        except Exception as error:
            raise self._error("LIST", folder, error) from error

    def remove(self, name: str) -> None:
        """Remove an object."""
        import obstore

        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            return
        except Exception as error:
            raise self._error("DELETE", name, error) from error

    def _error(self, verb: str, name: str, error: Exception) -> IngotError:
        return IngotError(
            f"{self.name}: {verb} {name} failed: {type(error).__name__}",
            "is the bucket there, and are the credentials right?",
        )
