"""Test signing and verifying in DSSE envelopes, also against openssl."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ingot import dsse
from ingot.errors import IngotError

KIND = "application/vnd.example+json"


def test_what_is_signed_is_the_encoding_of_the_specification() -> None:
    # The example of the specification's protocol page.
    encoded = dsse.pae("http://example.com/HelloWorld", b"hello world")
    assert encoded == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@pytest.mark.parametrize("algorithm", dsse.ALGORITHMS)
def test_an_envelope_comes_back_and_only_its_key_verifies_it(
    algorithm: dsse.Algorithm,
) -> None:
    key, other = dsse.generate(algorithm), dsse.generate(algorithm)
    sent = dsse.sign(KIND, b"payload", key)
    received = dsse.decode_envelope(dsse.encode_envelope(sent))
    assert received == sent
    assert received.signed_by(key.public)
    assert not received.signed_by(other.public)
    assert received.signatures[0].key_id == key.public.key_id
    for changed in (
        dsse.Envelope(KIND, b"payloae", sent.signatures),
        dsse.Envelope(KIND + "2", b"payload", sent.signatures),
        dsse.Envelope(KIND, b"payload", ()),
    ):
        assert not changed.signed_by(key.public)


@pytest.mark.parametrize("algorithm", dsse.ALGORITHMS)
def test_keys_are_read_as_they_are_written(algorithm: dsse.Algorithm) -> None:
    key = dsse.generate(algorithm)
    again = dsse.read_private_key(key.pem, "KEY")
    assert again.public.text == key.public.text
    assert again.public.algorithm == algorithm
    for text in (key.public.text, key.public.pem):
        assert dsse.read_public_key(text, "KEY").key_id == key.public.key_id


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_openssl_makes_the_keys_and_verifies_the_signature(tmp_path: Path) -> None:
    def openssl(*arguments: str) -> None:
        command = ("openssl", *arguments)
        subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)

    curve = ("EC", "-pkeyopt", "ec_paramgen_curve:P-256")
    openssl("genpkey", "-algorithm", *curve, "-out", "key")
    key = dsse.read_private_key((tmp_path / "key").read_bytes(), "key")
    envelope = dsse.sign(KIND, b"payload", key)
    (tmp_path / "public").write_bytes(key.public.pem)
    (tmp_path / "signature").write_bytes(envelope.signatures[0].value)
    (tmp_path / "content").write_bytes(dsse.pae(KIND, b"payload"))
    verify = ("-verify", "public", "-signature", "signature", "content")
    openssl("dgst", "-sha256", *verify)
    openssl("genpkey", "-algorithm", "ed25519", "-out", "key")
    key = dsse.read_private_key((tmp_path / "key").read_bytes(), "key")
    assert key.public.algorithm == "ed25519"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nothing", b"", "k: not a private key in PEM; expected one of"),
        ("public", dsse.generate("ed25519").public.pem, "k: not a private key in PEM"),
    ],
)
def test_what_is_no_private_key_is_an_error(
    name: str, content: bytes, message: str
) -> None:
    with pytest.raises(IngotError) as caught:
        dsse.read_private_key(content, "k")
    assert str(caught.value).startswith(message)
    assert "openssl genpkey -algorithm ed25519" in caught.value.hint


def test_a_public_key_of_another_kind_is_an_error() -> None:
    for text in ("", "AAAA", "not base64!", "-----BEGIN PUBLIC KEY-----\n"):
        with pytest.raises(IngotError, match=r"k: not a public key; expected one of"):
            dsse.read_public_key(text, "k")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b'{"payload": "", "payloadType": ""}',
        b'{"payload": 1, "payloadType": "", "signatures": []}',
        b'{"payload": "!", "payloadType": "", "signatures": []}',
        b'{"payload": "", "payloadType": "", "signatures": [1]}',
        b'{"payload": "", "payloadType": "", "signatures": [{"sig": "\xc3\xa4"}]}',
    ],
    ids=range(8),
)
def test_what_is_no_envelope_is_an_error(content: bytes) -> None:
    with pytest.raises(dsse.BadEnvelope):
        dsse.decode_envelope(content)


def test_both_alphabets_of_base64_are_read() -> None:
    payload = b"\xfb\xff\xfe"
    value = {
        "payload": base64.urlsafe_b64encode(payload).decode(),
        "payloadType": KIND,
        "signatures": [],
    }
    assert dsse.decode_envelope(json.dumps(value).encode()).payload == payload
