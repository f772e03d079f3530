"""Compute the key of a resolved action, and the messages that describe it.

The messages are those of Bazel's remote-execution API, and the key is the sha256 of the
`Action` message, so that any cache or executor that speaks the API accepts it. This
module writes them without the protobuf library, which takes five times as long and 50
ms to import; `tests/test_keys.py` compares the two.

Source: build.bazel.remote.execution.v2, remote_execution.proto;
protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from ingot.engine.actions import Digest, ResolvedAction


class EncodedAction(NamedTuple):
    """An action as messages: its key, and every message by digest."""

    key: Digest
    blobs: tuple[tuple[Digest, bytes], ...]

    @property
    def messages(self) -> tuple[bytes, ...]:
        """Return all messages, the action's own first."""
        return tuple([content for _, content in reversed(self.blobs)])


def encode_action(resolved: ResolvedAction) -> EncodedAction:
    """Return the action's key and messages."""
    blobs: dict[Digest, bytes] = {}
    platform = _pairs(1, resolved.platform)
    command = (
        b"".join([field(1, word.encode()) for word in resolved.argv])
        + _pairs(2, resolved.env)
        + field(5, platform)
        + b"".join([field(7, path.encode()) for path in resolved.outputs])
    )
    root = _directory([(path.split("/"), d) for path, d in resolved.inputs], blobs)
    action = (
        field(1, digest_message(_blob(command, blobs)))
        + field(2, digest_message(root))
        + field(10, platform)
    )
    return EncodedAction(_blob(action, blobs), tuple(blobs.items()))


def digest_of(content: bytes) -> Digest:
    """Return the content's digest."""
    return Digest(hashlib.sha256(content).hexdigest(), len(content))


def _directory(
    files: list[tuple[list[str], Digest]], blobs: dict[Digest, bytes]
) -> Digest:
    """Return the digest of the files' directory; add its message to the blobs."""
    children: dict[str, list[tuple[list[str], Digest]]] = {}
    nodes = []
    for parts, digest in files:
        if len(parts) == 1:
            nodes.append((parts[0], digest))
        else:
            children.setdefault(parts[0], []).append((parts[1:], digest))
    folders = [(name, _directory(children[name], blobs)) for name in sorted(children)]
    content = [field(1, _node(name, digest)) for name, digest in sorted(nodes)]
    content += [field(2, _node(name, digest)) for name, digest in folders]
    return _blob(b"".join(content), blobs)


def _blob(content: bytes, blobs: dict[Digest, bytes]) -> Digest:
    digest = digest_of(content)
    blobs[digest] = content
    return digest


def digest_message(digest: Digest) -> bytes:
    """Return the digest as a `Digest` message."""
    return text(1, digest.hash) + number(2, digest.size_bytes)


def _node(name: str, digest: Digest) -> bytes:
    return text(1, name) + field(2, digest_message(digest))


def _pairs(place: int, pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return a field for each pair: a message with a name and a value."""
    found = [field(place, text(1, name) + text(2, value)) for name, value in pairs]
    return b"".join(found)


def field(place: int, content: bytes) -> bytes:
    """Return a field with bytes, a message, or one of several values."""
    return varint(place << 3 | 2) + varint(len(content)) + content


def text(place: int, value: str) -> bytes:
    """Return a text field; b"" for an empty text."""
    return field(place, value.encode()) if value else b""


def number(place: int, value: int) -> bytes:
    """Return a number field; b"" for 0."""
    # A negative number is written as the 64 bits of its two's complement.
    return varint(place << 3) + varint(value & (1 << 64) - 1) if value else b""


def varint(value: int) -> bytes:
    """Return the number in groups of 7 bits, the lowest first."""
    if value < 0x80:
        return _BYTES[value]
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


_BYTES = [bytes([value]) for value in range(0x80)]
