"""Describe blobs, manifests and indexes as the OCI image specification does.

A document (a manifest or an index) is kept as its bytes: its digest is what everybody
refers to, and JSON that is written again may have other bytes.

Source: OCI image specification 1.1, "Content Descriptors", "Image Manifest", "Image
Index"; CNCF ModelPack's model specification, `docs/spec.md`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from ingot import codec
from ingot.errors import IngotError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EMPTY_CONFIG = "application/vnd.oci.empty.v1+json"

MODEL = "application/vnd.cncf.model.manifest.v1+json"
MODEL_CONFIG = "application/vnd.cncf.model.config.v1+json"

TITLE = "org.opencontainers.image.title"
VERSION = "org.opencontainers.image.version"
LICENCES = "org.opencontainers.image.licenses"
REF_NAME = "org.opencontainers.image.ref.name"
FILE_PATH = "org.cncf.model.filepath"
TARGET = "ingot.target"

# Registries accept documents of up to 4 MiB.
DOCUMENT_BYTES = 4 << 20

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A blob or a document by its digest, and what is said of it."""

    media_type: str
    digest: str  # "sha256:" and 64 hex digits
    size_bytes: int
    artifact_type: str = ""
    platform: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """Return the hex digits of the digest."""
        return self.digest.removeprefix("sha256:")

    @property
    def json(self) -> dict[str, Any]:
        """Return the descriptor as documents contain it."""
        value: dict[str, Any] = {
            "mediaType": self.media_type,
            "digest": self.digest,
            "size": self.size_bytes,
        }
        if self.artifact_type:
            value["artifactType"] = self.artifact_type
        if self.platform:
            value["platform"] = self.platform
        if self.annotations:
            value["annotations"] = self.annotations
        return value


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest or an index, as it is stored."""

    media_type: str
    content: bytes

    @property
    def digest(self) -> str:
        """Return the digest by which others refer to the document."""
        return digest_of(self.content)

    def descriptor(self, **described: Any) -> Descriptor:
        """Return a descriptor of the document."""
        return Descriptor(self.media_type, self.digest, len(self.content), **described)

    def read(self, name: str) -> dict[str, Any]:
        """Return what the document says; `name` names it in errors.

        Raises: IngotError if it is not a JSON object, or of another media type.
        """
        try:
            value = json.loads(self.content)
        except (ValueError, RecursionError) as error:
            raise IngotError(f"{name}: not JSON") from error
        if not isinstance(value, dict):
            raise IngotError(f"{name}: expected an object of JSON")
        if value.get("mediaType", self.media_type) != self.media_type:
            raise IngotError(
                f"{name}: it says that it is a {value['mediaType']!r}, and it was"
                f" stored as a {self.media_type!r}"
            )
        return value

    def descriptors(self, key: str, name: str) -> tuple[Descriptor, ...]:
        """Return the descriptors that a document lists under a key.

        Raises: IngotError if one of them is no descriptor.
        """
        found = self.read(name).get(key, [])
        if not isinstance(found, list):
            raise IngotError(f"{name}: {key}: expected a list")
        return tuple(
            read_descriptor(item, f"{name}: {key}[{number}]")
            for number, item in enumerate(found)
        )


def digest_of(content: bytes) -> str:
    """Return the digest of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def described(media_type: str, content: bytes, **more: Any) -> Descriptor:
    """Return the descriptor of a blob with this content."""
    return Descriptor(media_type, digest_of(content), len(content), **more)


def document(media_type: str, value: dict[str, Any]) -> Document:
    """Return a document with this content, with the same bytes everywhere."""
    content = {"schemaVersion": 2, "mediaType": media_type, **value}
    return Document(media_type, codec.to_json(content).encode())


def manifest(
    artifact_type: str,
    config: Descriptor,
    layers: tuple[Descriptor, ...],
    annotations: dict[str, str],
    subject: Descriptor | None = None,
) -> Document:
    """Return the manifest of an artifact, which may be about a subject."""
    value: dict[str, Any] = {
        "artifactType": artifact_type,
        "config": config.json,
        "layers": [layer.json for layer in layers],
        "annotations": annotations,
    }
    if subject is not None:
        plain = Descriptor(subject.media_type, subject.digest, subject.size_bytes)
        value["subject"] = plain.json
    return document(MANIFEST, value)


def index(
    manifests: tuple[Descriptor, ...],
    annotations: dict[str, str] | None = None,
    artifact_type: str = "",
) -> Document:
    """Return an index of manifests."""
    value: dict[str, Any] = {"manifests": [item.json for item in manifests]}
    if annotations:
        value["annotations"] = annotations
    if artifact_type:
        value["artifactType"] = artifact_type
    return document(INDEX, value)


def read_descriptor(value: Any, name: str) -> Descriptor:
    """Return the descriptor that parsed JSON describes.

    Raises: IngotError, with the name of the place, if it describes none.
    """
    if not isinstance(value, dict):
        raise IngotError(f"{name}: expected a descriptor")
    size = value.get("size")
    texts = [value.get("mediaType"), value.get("digest"), value.get("artifactType", "")]
    if not all(isinstance(text, str) for text in texts) or type(size) is not int:
        raise IngotError(f"{name}: expected texts 'mediaType', 'digest' and a size")
    if DIGEST.fullmatch(value["digest"]) is None or size < 0:
        raise IngotError(
            f"{name}: expected sha256:<64 hex digits> and a size,"
            f" found {value['digest']!r} and {size}"
        )
    platform, annotations = value.get("platform", {}), value.get("annotations", {})
    for found in (platform, annotations):
        if not isinstance(found, dict):
            raise IngotError(f"{name}: expected texts by name")
    return Descriptor(
        media_type=value["mediaType"],
        digest=value["digest"],
        size_bytes=size,
        artifact_type=value.get("artifactType", ""),
        platform={k: v for k, v in platform.items() if isinstance(v, str)},
        annotations={k: v for k, v in annotations.items() if isinstance(v, str)},
    )
