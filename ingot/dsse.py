"""Sign bytes, and verify signatures, in envelopes of DSSE.

DSSE (github.com/secure-systems-lab/dsse, version 1) signs the payload together with its
type, so a signature of one kind of statement is none of another kind. Keys are ed25519
or ECDSA on P-256. This module needs the package `cryptography` (the extra `signing`):
import it only where something is signed or verified.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal, get_args

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from ingot.errors import IngotError

Algorithm = Literal["ed25519", "ecdsa-p256"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

_Private = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
_Public = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey
_SHA256 = ec.ECDSA(hashes.SHA256())


class BadEnvelope(ValueError):
    """Bytes that should be an envelope are none."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies signatures."""

    key: _Public

    @property
    def algorithm(self) -> Algorithm:
        """Return the kind of key."""
        return _algorithm(self.key)

    @property
    def der(self) -> bytes:
        """Return the key as a SubjectPublicKeyInfo of X.509."""
        encoding = serialization.Encoding.DER
        return self.key.public_bytes(
            encoding, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def text(self) -> str:
        """Return the key as one line: what a PEM file has between its dashes."""
        return base64.b64encode(self.der).decode()

    @property
    def pem(self) -> bytes:
        """Return the key as a PEM file."""
        encoding = serialization.Encoding.PEM
        return self.key.public_bytes(
            encoding, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    @property
    def key_id(self) -> str:
        """Return the sha256 of the key, which names it in envelopes."""
        return hashlib.sha256(self.der).hexdigest()

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Return whether this key signed the content."""
        try:
            if isinstance(self.key, ed25519.Ed25519PublicKey):
                self.key.verify(signature, content)
            else:
                self.key.verify(signature, content, _SHA256)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key that signs."""

    key: _Private

    @property
    def public(self) -> PublicKey:
        """Return the key that verifies what this one signs."""
        return PublicKey(self.key.public_key())

    @property
    def pem(self) -> bytes:
        """Return the key as a PEM file without a password (PKCS #8)."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign(self, content: bytes) -> bytes:
        """Return the signature of the content: ECDSA's is in DER, over a sha256."""
        if isinstance(self.key, ed25519.Ed25519PrivateKey):
            return self.key.sign(content)
        return self.key.sign(content, _SHA256)


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of an envelope."""

    key_id: str  # a hint at the key, which nothing protects; may be empty
    value: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A payload, its type, and who signed both."""

    payload_type: str
    payload: bytes
    signatures: tuple[Signature, ...]

    def signed_by(self, key: PublicKey) -> bool:
        """Return whether one of the signatures is the key's."""
        content = pae(self.payload_type, self.payload)
        return any(key.verifies(one.value, content) for one in self.signatures)


def generate(algorithm: Algorithm) -> PrivateKey:
    """Return a new key."""
    if algorithm == "ed25519":
        return PrivateKey(ed25519.Ed25519PrivateKey.generate())
    return PrivateKey(ec.generate_private_key(ec.SECP256R1()))


def read_private_key(pem: bytes, name: str) -> PrivateKey:
    """Return the key in a PEM file; `name` says where it is from, for errors.

    Raises: IngotError if it is not such a key, without quoting it.
    """
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise IngotError(
            f"{name}: the private key has a password; expected one without",
            "remove it: openssl pkey -in KEY -out KEY-WITHOUT-PASSWORD",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise _wrong_key(name, "not a private key in PEM") from None
    if not isinstance(key, _Private):
        raise _wrong_key(name, f"a private key of the kind {type(key).__name__}")
    _algorithm(key, name)
    return PrivateKey(key)


def read_public_key(text: str | bytes, name: str) -> PublicKey:
    """Return the key in a PEM file, or in one line of base64 as in its middle.

    Raises: IngotError if it is not such a key.
    """
    content = text.encode() if isinstance(text, str) else text
    try:
        if b"-----" in content:
            key = serialization.load_pem_public_key(content)
        else:
            key = serialization.load_der_public_key(
                base64.b64decode(content.strip(), validate=True)
            )
    except (ValueError, UnsupportedAlgorithm):
        raise _wrong_key(name, "not a public key") from None
    if not isinstance(key, _Public):
        raise _wrong_key(name, f"a public key of the kind {type(key).__name__}")
    _algorithm(key, name)
    return PublicKey(key)


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return what is signed: DSSE's pre-authentication encoding of type and payload."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload_type: str, payload: bytes, *keys: PrivateKey) -> Envelope:
    """Return the payload in an envelope that each of the keys signed."""
    content = pae(payload_type, payload)
    signatures = tuple(Signature(key.public.key_id, key.sign(content)) for key in keys)
    return Envelope(payload_type, payload, signatures)


def encode_envelope(envelope: Envelope) -> bytes:
    """Return the envelope as JSON, which any program for DSSE reads."""
    value = {
        "payload": base64.b64encode(envelope.payload).decode(),
        "payloadType": envelope.payload_type,
        "signatures": [
            {"keyid": one.key_id, "sig": base64.b64encode(one.value).decode()}
            for one in envelope.signatures
        ],
    }
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def decode_envelope(content: bytes) -> Envelope:
    """Return the envelope that the JSON describes.

    Raises: BadEnvelope if it describes none. Nothing of it is verified yet.
    """
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BadEnvelope("it is not JSON") from error
    signatures = tuple(map(_signature, _part(value, "signatures", list)))
    payload = _base64(_part(value, "payload", str))
    return Envelope(_part(value, "payloadType", str), payload, signatures)


def _signature(value: Any) -> Signature:
    signature = _base64(_part(value, "sig", str))
    named = "keyid" in value
    return Signature(_part(value, "keyid", str) if named else "", signature)


def _part(value: Any, name: str, kind: type) -> Any:
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, kind):
        raise BadEnvelope(f"'{name}' is missing, or of another type")
    if isinstance(found, str) and not found.isprintable():
        # Half a surrogate pair among them: JSON can spell it, and nothing can sign it.
        raise BadEnvelope(f"'{name}' is not a printable text")
    return found


def _base64(text: str) -> bytes:
    # The specification allows both alphabets.
    try:
        return base64.b64decode(text.translate(_URL_SAFE), validate=True)
    except (ValueError, binascii.Error) as error:
        raise BadEnvelope("a part of it is not base64") from error


_URL_SAFE = str.maketrans("-_", "+/")


def _algorithm(key: _Public | _Private, name: str = "the key") -> Algorithm:
    """Return the kind of key.

    Raises: IngotError if the curve is another one than P-256.
    """
    if isinstance(key, ec.EllipticCurvePublicKey | ec.EllipticCurvePrivateKey):
        if not isinstance(key.curve, ec.SECP256R1):
            raise _wrong_key(name, f"a key on the curve {key.curve.name}")
        return "ecdsa-p256"
    return "ed25519"


def _wrong_key(name: str, found: str) -> IngotError:
    return IngotError(
        f"{name}: {found}; expected one of {' or '.join(ALGORITHMS)}",
        "make one: openssl genpkey -algorithm ed25519 -out KEY",
    )
