"""Keep releases as an OCI image layout, in a folder or a bucket.

A layout has the same documents and blobs as a registry: `blobs/sha256/<hex>`, and
`index.json`, which names tagged documents and those that are about others.

Source: OCI image specification 1.1, "Image Layout".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from ingot.engine.digests import chunks
from ingot.errors import IngotError
from ingot.release.layout_files import LayoutFiles
from ingot.release.oci_documents import (
    DIGEST,
    INDEX,
    REF_NAME,
    Descriptor,
    Document,
    index,
    read_descriptor,
)
from ingot.release.repository import Repository, other_bytes

MARKER = "oci-layout"
INDEX_FILE = "index.json"
_MARKER_TEXT = b'{"imageLayoutVersion": "1.0.0"}\n'
_BLOBS = "blobs/sha256"


class Layout(Repository):
    """An OCI image layout."""

    def __init__(self, files: LayoutFiles) -> None:
        """Use these files."""
        self.name = files.name
        self._files = files

    def has_blob(self, blob: Descriptor) -> bool:
        """Return whether a file of the blob's name and size is there."""
        return self._files.size(_path(blob.digest)) == blob.size_bytes

    def put_blob(self, blob: Descriptor, content: Path | bytes) -> None:
        """Copy the blob, and compare it with its digest on the way."""
        pieces = [content] if isinstance(content, bytes) else chunks(content)
        self._files.write(_path(blob.digest), self._checked(blob, pieces))

    def read_blob(
        self, blob: Descriptor, start: int
    ) -> tuple[int, Generator[bytes, None, None]]:
        """Return the content from `start` on."""
        return start, self._files.read(_path(blob.digest), start)

    def get_document(self, reference: str) -> Document | None:
        """Return the document under a tag or digest."""
        if DIGEST.fullmatch(reference) is None:
            tagged = self._tagged().get(reference)
            return None if tagged is None else self._read(tagged)
        if self._files.size(_path(reference)) is None:
            return None
        content = b"".join(self._files.read(_path(reference)))
        try:
            return Document(str(json.loads(content)["mediaType"]), content)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise IngotError(f"{self.name}: {reference}: not a document") from error

    def put_document(self, document: Document, tag: str = "") -> None:
        """Store the document; a tagged one, or one with a subject, gets an entry."""
        blob = document.descriptor()
        if not self.has_blob(blob):
            self.put_blob(blob, document.content)
        value = document.read(self.name)
        named = {REF_NAME: tag} if tag else {}
        kind = str(value.get("artifactType", ""))
        entry = document.descriptor(artifact_type=kind, annotations=named)
        entries = self._entries()
        kept = tuple(x for x in entries if not tag or x.annotations != named)
        if (tag or "subject" in value) and entry not in entries:
            self._write((*kept, entry))

    def delete_document(self, digest: str) -> None:
        """Remove the entries of a document, then every blob that nothing names."""
        self._write(tuple(x for x in self._entries() if x.digest != digest))
        kept = {_path(x) for entry in self._entries() for x in self._reached(entry)}
        for name in self._files.names(_BLOBS):
            if name not in kept:
                self._files.remove(name)

    def tags(self) -> tuple[str, ...]:
        """Return the tags of `index.json`."""
        return tuple(self._tagged())

    def referrers(self, digest: str) -> tuple[Descriptor, ...]:
        """Return the documents of `index.json` whose subject has this digest."""
        found = []
        for item in self._entries():
            subject = self._read(item).read(self.name).get("subject")
            if isinstance(subject, dict) and subject.get("digest") == digest:
                found.append(item)
        return tuple(found)

    def _checked(self, blob: Descriptor, pieces: Iterable[bytes]) -> Iterator[bytes]:
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
            yield piece
        if digest.hexdigest() != blob.sha256:
            raise other_bytes(self, blob)

    def _reached(self, item: Descriptor) -> Iterator[str]:
        """Yield the digests of a document and of all that it names."""
        yield item.digest
        value = self._read(item).read(self.name)
        for part in value.get("manifests", []):
            yield from self._reached(read_descriptor(part, self.name))
        for part in (value.get("config"), *value.get("layers", [])):
            if part is not None:
                yield read_descriptor(part, self.name).digest

    def _tagged(self) -> dict[str, Descriptor]:
        entries = self._entries()
        return {
            x.annotations[REF_NAME]: x for x in entries if REF_NAME in x.annotations
        }

    def _entries(self) -> tuple[Descriptor, ...]:
        if self._files.size(INDEX_FILE) is None:
            return ()
        document = Document(INDEX, b"".join(self._files.read(INDEX_FILE)))
        return document.descriptors("manifests", f"{self.name}/{INDEX_FILE}")

    def _read(self, item: Descriptor) -> Document:
        content = b"".join(self._files.read(_path(item.digest)))
        return Document(item.media_type, content)

    def _write(self, entries: tuple[Descriptor, ...]) -> None:
        self._files.write(MARKER, [_MARKER_TEXT])
        self._files.write(INDEX_FILE, [index(entries).content])


def _path(digest: str) -> str:
    return f"{_BLOBS}/{digest.removeprefix('sha256:')}"
