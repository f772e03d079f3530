"""Make the evidence of a release, keep it beside the bundle, and read it back.

In a registry, evidence is a referrer of the target's manifest; beside a folder, it is
in the folder `<name>.evidence`. The signature names the rest by digest, so it is made
last.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingot import dsse
from ingot.bundles.reader import Bundle
from ingot.dsse import PrivateKey
from ingot.errors import IngotError
from ingot.release import check_attestation, model_signature
from ingot.release import provenance as slsa
from ingot.release.bill_of_materials import bill_of_materials
from ingot.release.check_attestation import check_result
from ingot.release.oci_documents import (
    DOCUMENT_BYTES,
    EMPTY_CONFIG,
    TITLE,
    Descriptor,
    described,
    manifest,
)
from ingot.release.provenance import Checkout
from ingot.release.repository import Repository, read_document, read_small_blob
from ingot.release.statements import PAYLOAD_TYPE, Subject, statement, time_text

SIGNATURE = "model.sig"
PROVENANCE = "provenance.dsse.json"
TEST_RESULT = "test-result.dsse.json"
BOM = "bom.cdx.json"

TYPES = {
    SIGNATURE: model_signature.MEDIA_TYPE,
    PROVENANCE: "application/vnd.in-toto.provenance+dsse",
    TEST_RESULT: "application/vnd.in-toto.test-result+dsse",
    BOM: "application/vnd.cyclonedx+json",
}
PREDICATES = {PROVENANCE: slsa.PREDICATE, TEST_RESULT: check_attestation.PREDICATE}

# A registry may list any number of referrers; more of a kind are not looked at.
N_CANDIDATES = 20

Evidence = Mapping[str, tuple[bytes, ...]]
"""The contents by file; of several that a registry has, one may be right."""


@dataclass(frozen=True, slots=True)
class Builder:
    """Who made a release, from what, and when."""

    checkout: Checkout
    name: str  # a URI
    created: int  # seconds since 1970
    packages: Mapping[str, str]  # the sha256 of the files of installed ones


def make_evidence(
    bundle: Bundle,
    subject: Subject,
    bench: dict[str, Any],
    builder: Builder,
    key: PrivateKey,
) -> dict[str, bytes]:
    """Return the evidence about a bundle, by file.

    All but the signatures is the same for the same bundle and builder.
    """
    created = time_text(builder.created)
    contract = bundle.contract
    built = slsa.provenance(
        subject, contract, builder.checkout, builder.name, created, builder.packages
    )
    stated = {
        PROVENANCE: statement(subject, slsa.PREDICATE, built),
        TEST_RESULT: statement(
            subject, check_attestation.PREDICATE, check_result(subject, contract)
        ),
        BOM: bill_of_materials(subject, contract, bench, created),
    }
    digests = {name: hashlib.sha256(x).hexdigest() for name, x in stated.items()}
    made = {
        name: dsse.encode_envelope(dsse.sign(PAYLOAD_TYPE, stated[name], key))
        for name in PREDICATES
    }
    signature = model_signature.sign_model(subject, created, digests, key)
    return {**made, BOM: stated[BOM], SIGNATURE: signature}


def stated(name: str, content: bytes) -> bytes:
    """Return the bytes of a file of evidence that the signature names by digest.

    Raises: BadEnvelope if it is no envelope, though it should be.
    """
    return dsse.decode_envelope(content).payload if name in PREDICATES else content


def attach(
    repository: Repository, subject: Descriptor, evidence: Mapping[str, bytes]
) -> None:
    """Store the evidence as referrers of a manifest; the signature comes last."""
    empty = described(EMPTY_CONFIG, b"{}")
    if not repository.has_blob(empty):
        repository.put_blob(empty, b"{}")
    for name in sorted(evidence, key=lambda name: name == SIGNATURE):
        blob = described(TYPES[name], evidence[name], annotations={TITLE: name})
        repository.put_blob(blob, evidence[name])
        named = {TITLE: name}
        document = manifest(TYPES[name], empty, (blob,), named, subject)
        repository.put_document(document)


def read_attached(repository: Repository, digest: str) -> Evidence:
    """Return the evidence about a manifest; nothing of it is verified yet.

    Raises: IngotError if the place sends other bytes.
    """
    names = {kind: name for name, kind in TYPES.items()}
    found: dict[str, list[bytes]] = {}
    for item in repository.referrers(digest):
        name = names.get(item.artifact_type)
        if name is None or len(found.get(name, ())) == N_CANDIDATES:
            continue
        layers = read_document(repository, item.digest).descriptors("layers", name)
        contents = [read_small_blob(repository, layer) for layer in layers[:1]]
        found.setdefault(name, []).extend(contents)
    return {name: tuple(contents) for name, contents in found.items()}


def folder_of(bundle: Path) -> Path:
    """Return the folder beside a bundle's that has its evidence."""
    return bundle.with_name(f"{bundle.absolute().name}.evidence")


def write_folder(folder: Path, evidence: Iterable[tuple[str, bytes]]) -> None:
    """Write evidence into a folder."""
    folder.mkdir(exist_ok=True)
    for name, content in evidence:
        (folder / name).write_bytes(content)


def read_folder(folder: Path) -> Evidence:
    """Return the evidence in a folder; nothing of it is verified yet.

    Raises: IngotError if a file cannot be read.
    """
    found = {}
    for name in TYPES:
        path = folder / name
        if path.is_file():
            if path.stat().st_size > DOCUMENT_BYTES:
                raise IngotError(f"{path}: too large to be evidence")
            found[name] = (path.read_bytes(),)
    return found
