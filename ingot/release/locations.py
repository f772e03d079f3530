"""Parse the address of a release, and open the place where it is.

oci://registry.example/models/tiny:1.4.0     a tag of a registry
oci://registry.example/models/tiny@sha256:.. a digest
oci+http://registry.example:5000/tiny        without TLS; loopback needs no "+http"
s3://bucket/tiny:1.4.0                       also gs:// and az://
releases/tiny:1.4.0                          a folder
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import IngotError
from ingot.release.layout_files import BucketFiles, FolderFiles
from ingot.release.oci_documents import DIGEST
from ingot.release.oci_layout import MARKER, Layout
from ingot.release.oci_registry import Registry
from ingot.release.registry_login import authorization
from ingot.release.repository import Repository

# What a registry accepts, and a file system too.
TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_PATH = re.compile(
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
)
_PATH_OF_LAYOUT = re.compile(r"(:[^:/@]*|@sha256:[^/]*)$")
_HOST = re.compile(r"\[[0-9a-f:]+\](?::\d+)?|[A-Za-z0-9.-]+(?::\d+)?")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_BUCKETS = ("s3://", "gs://", "az://")

FORMS = "expected oci://HOST/REPO, s3://BUCKET/PREFIX or a folder, then :TAG or @DIGEST"


@dataclass(frozen=True, slots=True)
class Location:
    """The address of a repository, and of one thing in it."""

    place: str  # without tag and digest
    reference: str = ""  # a tag or a digest

    @property
    def is_digest(self) -> bool:
        """Return whether the reference fixes every byte."""
        return DIGEST.fullmatch(self.reference) is not None


def is_release(text: str) -> bool:
    """Return whether a text is the address of a release, and not of a bundle."""
    if re.match(r"oci(\+http)?://|s3://|gs://|az://", text):
        return True
    # A file of any name may be a bundle's tar.
    place = text if Path(text).exists() else _PATH_OF_LAYOUT.sub("", text)
    return (Path(place) / MARKER).is_file()


def parse(text: str) -> Location:
    """Return the parts of an address.

    Raises: IngotError if it is none.
    """
    place, at, digest = text.partition("@sha256:")
    if at:
        if DIGEST.fullmatch(f"sha256:{digest}") is None:
            raise IngotError(f"{text}: not a digest; expected sha256:<64 hex digits>")
        return Location(place, f"sha256:{digest}")
    head, colon, tag = text.rpartition(":")
    if not colon or "/" in tag or (text.count(":") == 1 and "://" in text):
        return Location(text)
    if TAG.fullmatch(tag) is None:
        raise IngotError(f"{text}: not a tag: '{tag}'", FORMS)
    return Location(head, tag)


def open_repository(place: str) -> Repository:
    """Return the repository at a place; nothing is sent yet.

    Raises: IngotError if the address is wrong.
    """
    if place.startswith(_BUCKETS):
        return Layout(BucketFiles(place))
    scheme, separator, rest = place.partition("://")
    if not separator:
        return Layout(FolderFiles(Path(place).expanduser()))
    host, _, path = rest.partition("/")
    if scheme not in ("oci", "oci+http"):
        raise IngotError(f"{place}: no kind of place named '{scheme}'", FORMS)
    if _HOST.fullmatch(host) is None or _PATH.fullmatch(path) is None:
        raise IngotError(
            f"{place}: not a repository of a registry",
            "expected oci://HOST/REPO; a repository has lower-case letters and digits,"
            " with . _ - or / between them",
        )
    is_loopback = re.sub(r":\d+$", "", host) in _LOOPBACK
    plain = scheme == "oci+http" or is_loopback
    base = f"http{'' if plain else 's'}://{host}"
    return Registry(base, path, authorization(host, os.environ))
