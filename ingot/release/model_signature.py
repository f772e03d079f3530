"""Sign a release in the format of OpenSSF model-signing, and read such a signature.

The signature is a Sigstore bundle around a DSSE envelope. Its statement lists every
file with its sha256, so `model_signing verify key` accepts it; ingot adds which model,
version and target the files are, when they were released, and the digests of all
evidence, so that one signature holds everything together. model-signing takes no
ed25519.

Source: model-signing 1.1, predicate https://model_signing/signature/v1.0; Sigstore
bundle 0.3; ECDSA on P-256 with sha256.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingot import codec, dsse
from ingot.dsse import BadEnvelope, Envelope, PrivateKey, PublicKey
from ingot.errors import IngotError
from ingot.release.statements import PAYLOAD_TYPE, Subject, read_statement

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PREDICATE = "https://model_signing/signature/v1.0"


@dataclass(frozen=True, slots=True)
class Release:
    """What a signature says of a release, besides its files."""

    model: str
    version: str
    target: str
    created: str  # "2026-05-04T03:02:01Z"
    evidence: dict[str, str]  # sha256 of what each file of evidence states


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """A signature that is read, and not verified yet."""

    envelope: Envelope
    files: dict[str, str]  # sha256 by name
    release: Release


def sign_model(
    subject: Subject, created: str, evidence: Mapping[str, str], key: PrivateKey
) -> bytes:
    """Return the file `model.sig`.

    Raises: IngotError if the key is none that model-signing takes.
    """
    check_key(key.public, "the key of a release")
    files = sorted(subject.files.items())
    release = Release(
        subject.model, subject.version, subject.target, created, dict(evidence)
    )
    payload = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": subject.name, "digest": {"sha256": _root(files)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
            },
            "resources": [
                {"algorithm": "sha256", "digest": sha256, "name": name}
                for name, sha256 in files
            ],
            "release": release,
        },
    }
    envelope = dsse.sign(PAYLOAD_TYPE, codec.to_json(payload).encode(), key)
    # model-signing names the key by the digest of its PEM file.
    hint = hashlib.sha256(key.public.pem).hexdigest()
    bundle = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {"hint": hint}, "tlogEntries": []},
        "dsseEnvelope": json.loads(dsse.encode_envelope(envelope)),
    }
    return codec.to_json(bundle).encode()


def read_signature(content: bytes) -> ModelSignature:
    """Return what the file `model.sig` says; nothing of it is verified yet.

    Raises: BadEnvelope if it is none, or contradicts itself.
    """
    try:
        bundle = json.loads(content)
        if bundle["mediaType"] != MEDIA_TYPE:
            raise BadEnvelope(f"it is a {bundle['mediaType']!r}, not a {MEDIA_TYPE!r}")
        envelope = dsse.decode_envelope(json.dumps(bundle["dsseEnvelope"]).encode())
        stated = read_statement(envelope, PREDICATE)
        predicate: dict[str, Any] = stated["predicate"]
        resources = [(x["name"], x["digest"]) for x in predicate["resources"]]
        release = codec.from_plain(Release, predicate.get("release"))
        root = _root(resources)
    except BadEnvelope:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadEnvelope("it is not a signature of a release") from error
    files = dict(resources)
    if len(files) != len(resources) or list(stated["subjects"].values()) != [root]:
        raise BadEnvelope("its list of files contradicts itself")
    return ModelSignature(envelope, files, release)


def check_key(key: PublicKey, name: str) -> None:
    """Check that model-signing takes keys of this kind.

    Raises: IngotError if it does not.
    """
    if key.algorithm != "ecdsa-p256":
        raise IngotError(
            f"{name}: a release is signed with ECDSA on P-256, found {key.algorithm}",
            "`doit keys to=FOLDER` makes such a key",
        )


def _root(files: list[tuple[str, str]]) -> str:
    """Return the digest of all files' digests, in the order of the list."""
    digest = hashlib.sha256()
    for _, sha256 in files:
        digest.update(base64.b16decode(sha256, casefold=True))
    return digest.hexdigest()
