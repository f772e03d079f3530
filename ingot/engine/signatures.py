"""Sign statements on results, and verify them against the keys that a project trusts.

A signature is a DSSE envelope. It travels in the metadata of the result, so it is
wherever the result is: in the store, in any kind of shared cache, and in the response
of a worker.

This module needs the package `cryptography`: import it only where a project signs or
verifies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ingot import dsse
from ingot.codec import to_json
from ingot.engine.signed_statements import (
    HintStatement,
    ResultStatement,
    Statement,
    TrustedKey,
)

# One type for each kind of statement, so that none passes for one of the other kind.
_PAYLOAD_TYPES = {
    ResultStatement: "application/vnd.ingot.result.v1+json",
    HintStatement: "application/vnd.ingot.hint.v1+json",
}


def sign(statement: Statement, key: dsse.PrivateKey) -> bytes:
    """Return the envelope that says the statement, signed with the key."""
    payload = to_json(statement).encode()
    return dsse.encode_envelope(
        dsse.sign(_PAYLOAD_TYPES[type(statement)], payload, key)
    )


def why_not(
    keys: tuple[TrustedKey, ...],
    today: str,
    signature: bytes,
    statement: Statement,
    task: str,
) -> str:
    """Return why the signature of the statement does not count; "" if it does."""
    kind, payload = _PAYLOAD_TYPES[type(statement)], to_json(statement).encode()
    if not signature:
        return "unsigned"
    try:
        envelope = dsse.decode_envelope(signature)
    except dsse.BadEnvelope:
        return "with a signature that cannot be read"
    if (envelope.payload_type, envelope.payload) != (kind, payload):
        return "with the signature of something else"
    named = {_public(one).key_id: one for one in keys}
    reason = "with a signature that cannot be read"
    for found in envelope.signatures:
        key = named.get(found.key_id)
        if key is None:
            reason = f"signed by an unknown key, {found.key_id[:12]}"
            continue
        if not _public(key).verifies(found.value, dsse.pae(kind, payload)):
            reason = f"with a wrong signature of '{key.name}'"
            continue
        reason = key.why_not(task, today)
        if not reason:
            return ""
    return reason


def _public(key: TrustedKey) -> dsse.PublicKey:
    name = f"pyproject.toml: tool.ingot.keys.{key.name}.public-key"
    return dsse.read_public_key(key.public, name)


def signer(pem: bytes, name: str) -> Callable[[Statement], bytes]:
    """Return what signs with the key in a PEM file; `name` says where it is from.

    Raises: IngotError if it is no key.
    """
    return partial(sign, key=dsse.read_private_key(pem, name))
