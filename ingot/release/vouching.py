"""Decide whether a release is what somebody trusted says, before any of it is used.

The signature comes first: who signed, and for which model, version, target and files.
Then each piece of evidence, which the signature names by digest. Then the policy. All
of this needs no byte of the module or the archive, and loads nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ingot.dsse import BadEnvelope, decode_envelope
from ingot.errors import IngotError
from ingot.release.evidence import (
    PREDICATES,
    PROVENANCE,
    SIGNATURE,
    TYPES,
    Evidence,
    stated,
)
from ingot.release.model_signature import ModelSignature, read_signature
from ingot.release.policy import Facts, Policy, Signer, judge
from ingot.release.statements import read_statement, read_time


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for, and whom to trust."""

    signers: tuple[Signer, ...]
    now: int  # seconds since 1970
    policy: Policy | None = None
    model: str = ""
    target: str = ""
    version: str = ""  # "" if a channel or a digest was asked for


@dataclass(frozen=True, slots=True)
class Trusted:
    """A release whose evidence holds."""

    signer: str
    signature: ModelSignature
    provenance: dict[str, Any]


def trusted(
    name: str, evidence: Evidence, files: Mapping[str, str], wanted: Wanted
) -> Trusted:
    """Return who vouches for files, given by name and sha256.

    Raises: IngotError with the reason why nobody does.
    """
    signature, signer = _signature(name, evidence, wanted)
    _check_identity(name, signature, wanted)
    _check_files(name, signature.files, files)
    built: dict[str, Any] = {}
    for file, digest in sorted(signature.release.evidence.items()):
        content = _bound(name, file, digest, evidence)
        if file in PREDICATES:
            predicate = _attested(name, file, content, signer, files)
            built = predicate if file == PROVENANCE else built
    missing = sorted(TYPES.keys() - signature.release.evidence.keys() - {SIGNATURE})
    if missing:
        raise IngotError(f"{name}: the signature names no {', '.join(missing)}")
    return Trusted(signer.name, signature, built)


def check_policy(found: Trusted, contract: dict[str, Any], wanted: Wanted) -> None:
    """Judge a release, whose `bundle.json` the signature covers, by the policy.

    Raises: IngotError if it breaks a rule, or if `bundle.json` is of something else.
    """
    release = found.signature.release
    stated_name = f"{contract['model']}@{contract['target']['name']}"
    if stated_name != f"{release.model}@{release.target}":
        raise IngotError(
            f"bundle.json: it is of {stated_name}, and the signature is for"
            f" {release.model}@{release.target}"
        )
    if wanted.policy is None:
        return
    check = contract["check"]
    definition = found.provenance.get("buildDefinition", {})
    commits = [
        item["digest"]["gitCommit"]
        for item in definition.get("resolvedDependencies", [])
        if item.get("name") == "source"
    ]
    facts = Facts(
        model=release.model,
        version=release.version,
        target=release.target,
        created=read_time(release.created),
        licence=contract["licence"],
        judge=check["judge"],
        emulated=check["emulated"],
        quality=check["quality"],
        commit=commits[0] if commits else "",
        dirty=bool(definition.get("internalParameters", {}).get("sourceIsDirty")),
    )
    judge(wanted.policy, facts, wanted.now)


def _signature(
    name: str, evidence: Evidence, wanted: Wanted
) -> tuple[ModelSignature, Signer]:
    """Return the first signature that counts.

    Raises: IngotError with what is wrong with the last one, or that there is none.
    """
    candidates = evidence.get(SIGNATURE, ())
    if not candidates:
        raise IngotError(f"{name}: it is not signed")
    reason = ""
    for content in candidates:
        try:
            found = read_signature(content)
        except BadEnvelope as error:
            reason = f"{SIGNATURE}: {error}"
            continue
        for signer in wanted.signers:
            if not found.envelope.signed_by(signer.key):
                continue
            if signer.has_expired(wanted.now):
                reason = f"the key of {signer.name} expired on {signer.expires}"
                continue
            return found, signer
        known = ", ".join(signer.name for signer in wanted.signers) or "nobody"
        reason = reason or f"no signature is by a trusted key; trusted: {known}"
    raise IngotError(f"{name}: {reason}")


def _check_identity(name: str, signature: ModelSignature, wanted: Wanted) -> None:
    release = signature.release
    asked = (
        ("model", wanted.model, release.model),
        ("target", wanted.target, release.target),
        ("version", wanted.version, release.version),
    )
    for what, expected, found in asked:
        if expected and expected != found:
            raise IngotError(
                f"{name}: the signature is for another {what}; expected {expected},"
                f" found {found}"
            )


def _check_files(
    name: str, signed: Mapping[str, str], files: Mapping[str, str]
) -> None:
    for file in sorted(signed.keys() | files.keys()):
        if file not in files:
            raise IngotError(f"{name}: {file}: it is signed, and it is not there")
        if file not in signed:
            raise IngotError(f"{name}: {file}: it is there, and nobody signed it")
        if signed[file] != files[file]:
            raise IngotError(
                f"{name}: {file}: it is not the file that was signed; expected sha256"
                f" {signed[file]}, found {files[file]}"
            )


def _bound(name: str, file: str, digest: str, evidence: Evidence) -> bytes:
    """Return the content of evidence that the signature names.

    Raises: IngotError if there is none, or only another one.
    """
    candidates = evidence.get(file, ())
    if not candidates:
        raise IngotError(f"{name}: {file}: the signature names it, and it is not there")
    for content in candidates:
        try:
            if hashlib.sha256(stated(file, content)).hexdigest() == digest:
                return content
        except BadEnvelope:
            continue
    raise IngotError(
        f"{name}: {file}: it is not what the signature names: damaged, or of another"
        " release"
    )


def _attested(
    name: str, file: str, content: bytes, signer: Signer, files: Mapping[str, str]
) -> dict[str, Any]:
    """Return the predicate of a statement about these files.

    Raises: IngotError if another key signed it, or it is about other files.
    """
    envelope = decode_envelope(content)
    if not envelope.signed_by(signer.key):
        raise IngotError(f"{name}: {file}: not signed with the key of {signer.name}")
    try:
        value = read_statement(envelope, PREDICATES[file])
    except BadEnvelope as error:
        raise IngotError(f"{name}: {file}: {error}") from error
    if value["subjects"] != dict(files):
        raise IngotError(f"{name}: {file}: it is about other files")
    predicate = value["predicate"]
    if not isinstance(predicate, dict):
        raise IngotError(f"{name}: {file}: it states nothing")
    return predicate
