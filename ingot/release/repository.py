"""Define what a place for releases can do: a registry, a folder, or a bucket.

A place stores blobs by digest, documents by digest and by tag, and knows which
documents are about another one (its referrers). It only moves bytes: whoever reads
compares what arrived with its digest, so a place need not be trusted.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Protocol

from ingot.errors import IngotError
from ingot.release.oci_documents import (
    DIGEST,
    DOCUMENT_BYTES,
    Descriptor,
    Document,
    digest_of,
)


class Broken(IngotError):
    """A connection broke; another attempt may succeed."""


class Repository(Protocol):
    """The releases of one model at one place. Methods raise IngotError."""

    name: str  # the address without a password: it appears in messages

    def has_blob(self, blob: Descriptor) -> bool:
        """Return whether the blob is there."""

    def put_blob(self, blob: Descriptor, content: Path | bytes) -> None:
        """Store a blob; a file is read in pieces."""

    def read_blob(
        self, blob: Descriptor, start: int
    ) -> tuple[int, Generator[bytes, None, None]]:
        """Return the content in pieces, and where it begins: at `start`, or at 0."""

    def get_document(self, reference: str) -> Document | None:
        """Return what is stored under a tag or digest, or None; it is not verified."""

    def put_document(self, document: Document, tag: str = "") -> None:
        """Store a document, and let a tag name it; a subject is noted."""

    def delete_document(self, digest: str) -> None:
        """Remove a document, and every tag that names it."""

    def tags(self) -> tuple[str, ...]:
        """Return all tags; none if there is no such repository yet."""

    def referrers(self, digest: str) -> tuple[Descriptor, ...]:
        """Return the documents whose subject this one is."""


def read_document(repository: Repository, reference: str) -> Document:
    """Return the document under a tag or digest, which is compared with it.

    Raises: IngotError if there is none, or if it is another one.
    """
    found = repository.get_document(reference)
    if found is None:
        raise not_found(repository, reference)
    is_digest = DIGEST.fullmatch(reference) is not None
    if is_digest and found.digest != reference:
        raise IngotError(
            f"{repository.name}: it sent another document than it was asked for;"
            f" expected {reference}, found {found.digest}"
        )
    return found


def read_small_blob(repository: Repository, blob: Descriptor) -> bytes:
    """Return a blob whole, which is compared with its digest.

    Raises: IngotError if it is larger than a document may be, or another one.
    """
    if blob.size_bytes > DOCUMENT_BYTES:
        raise IngotError(
            f"{repository.name}: {blob.digest} is too large; expected at most"
            f" {DOCUMENT_BYTES} bytes, found {blob.size_bytes}"
        )
    content = bytearray()
    _, pieces = repository.read_blob(blob, 0)
    with closing(pieces):
        for piece in pieces:
            content += piece
            if len(content) > blob.size_bytes:
                break
    if len(content) != blob.size_bytes or digest_of(bytes(content)) != blob.digest:
        raise other_bytes(repository, blob)
    return bytes(content)


def other_bytes(repository: Repository, blob: Descriptor) -> IngotError:
    """Return the error about a blob that is not what its digest says."""
    title = blob.annotations.get("org.opencontainers.image.title", "a blob")
    return IngotError(
        f"{repository.name}: {title}: it sent other bytes than those of"
        f" {blob.digest} ({blob.size_bytes} bytes)",
        "the place is damaged, or lies; nothing of what it sent is kept",
    )


def not_found(repository: Repository, reference: str) -> IngotError:
    """Return the error about a tag or digest that nothing has."""
    known = [tag for tag in repository.tags() if not tag.startswith("sha256-")]
    shown = ", ".join(sorted(known)[-10:]) or "none"
    return IngotError(
        f"{repository.name}: there is no '{reference}'", f"tags that are there: {shown}"
    )
