"""Bring a release's bundle into a folder, and compare every byte with its digest.

A file that is there already is not fetched again, and one that was interrupted goes on
where it stopped. Nothing has its name until it is whole and right.
"""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ingot.bundles.tarball import file_digest
from ingot.engine.digests import chunks
from ingot.errors import IngotError
from ingot.release.oci_documents import (
    INDEX,
    MODEL,
    TARGET,
    TITLE,
    VERSION,
    Descriptor,
    Document,
)
from ingot.release.repository import Broken, Repository, other_bytes, read_document

TRIES = 5
PARTIAL = ".partial"

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Found:
    """One target of a release."""

    index: Document
    target: str
    descriptor: Descriptor  # of the manifest
    manifest: Document

    @property
    def version(self) -> str:
        """Return the version that the index states; nothing has verified it."""
        annotations = self.index.read("the index").get("annotations", {})
        return str(annotations.get(VERSION, ""))

    def files(self) -> dict[str, Descriptor]:
        """Return the layers by the name of their file.

        Raises: IngotError for a name that leads elsewhere, or that two have.
        """
        found: dict[str, Descriptor] = {}
        for layer in self.manifest.descriptors("layers", "the manifest"):
            name = layer.annotations.get(TITLE, "")
            if NAME.fullmatch(name) is None or name in found:
                raise IngotError(
                    f"the manifest: layers: not a name of a file: {name!r}"
                )
            found[name] = layer
        return found


def find(repository: Repository, reference: str, target: str) -> Found:
    """Return a target of the release under a tag or digest.

    Raises: IngotError if there is none, or several and none is named.
    """
    document = read_document(repository, reference)
    if document.media_type != INDEX:
        raise IngotError(
            f"{repository.name}: {reference} is no release; expected an index, found"
            f" a {document.media_type!r}"
        )
    entries = document.descriptors("manifests", f"{repository.name}:{reference}")
    known = {item.annotations.get(TARGET, ""): item for item in entries}
    if not target and len(known) == 1:
        (target,) = known
    if target not in known:
        names = ", ".join(sorted(known))
        wanted = f"it has no target '{target}'" if target else "it has several targets"
        raise IngotError(
            f"{repository.name}: {reference}: {wanted}", f"name one: target={names}"
        )
    manifest = read_document(repository, known[target].digest)
    if manifest.read(reference).get("artifactType") != MODEL:
        raise IngotError(f"{repository.name}: {reference}: its {target} is no model")
    return Found(document, target, known[target], manifest)


def fetch_bundle(repository: Repository, found: Found, folder: Path) -> int:
    """Write the bundle's files into a folder; return how many bytes were fetched.

    Raises: IngotError if the folder has other files, or the place sends other bytes.
    """
    files = found.files()
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in files and path.name.removesuffix(PARTIAL) not in files:
            raise IngotError(
                f"{path}: not a file of this release", "pull into an empty folder"
            )
    fetched = 0
    for name, layer in sorted(files.items()):
        fetched += fetch_file(repository, layer, folder / name)
    return fetched


def fetch_file(repository: Repository, layer: Descriptor, path: Path) -> int:
    """Write a blob to a file; return how many bytes were fetched.

    Raises: IngotError if the place sends other bytes, or stops again and again.
    """
    wanted = (layer.sha256, layer.size_bytes)
    if path.is_file() and not path.is_symlink() and file_digest(path) == wanted:
        return 0
    partial = path.with_name(f"{path.name}{PARTIAL}")
    fetched = 0
    try:
        if partial.is_file() and file_digest(partial) == wanted:
            os.replace(partial, path)
            return 0
        for attempt in range(1, TRIES + 1):
            try:
                fetched += _go_on(repository, layer, partial)
                break
            except Broken:
                if attempt == TRIES:
                    raise
        os.replace(partial, path)
    except OSError as error:
        raise IngotError(f"{path}: cannot be written; {error.strerror}") from error
    return fetched


def _go_on(repository: Repository, layer: Descriptor, partial: Path) -> int:
    """Fetch what a partial file lacks, and compare the whole with its digest.

    Raises: Broken if the connection broke, after which the file has more than before;
        IngotError if it has other bytes, of which nothing is kept.
    """
    there = partial.stat().st_size if partial.is_file() else 0
    if there >= layer.size_bytes:
        there = 0
    start, pieces = repository.read_blob(layer, there)
    digest = hashlib.sha256()
    with closing(pieces), partial.open("r+b" if partial.exists() else "w+b") as file:
        if start:
            for piece in chunks(partial):
                digest.update(piece)
        file.truncate(start)
        file.seek(start)
        size_bytes = start
        for piece in pieces:
            size_bytes += file.write(piece)
            digest.update(piece)
            if size_bytes > layer.size_bytes:
                break
        file.flush()
        os.fsync(file.fileno())
    if size_bytes < layer.size_bytes:
        raise Broken(
            f"{repository.name}: {layer.annotations.get(TITLE, layer.digest)}: the"
            f" transfer ended early; expected {layer.size_bytes} bytes, found"
            f" {size_bytes}",
            "run the command again: it goes on where it stopped",
        )
    if size_bytes != layer.size_bytes or digest.hexdigest() != layer.sha256:
        partial.unlink()
        raise other_bytes(repository, layer)
    return size_bytes - start
