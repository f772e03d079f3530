"""Compute the key of a resolved action, and the messages that describe it.

The messages are those of Bazel's remote-execution API, and the key is the sha256 of the
`Action` message, so that any cache or executor that speaks the API accepts it.
`tests/test_keys.py` compares the messages with those of the protobuf library.

Source: build.bazel.remote.execution.v2, remote_execution.proto.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ingot.engine.actions import Digest, ResolvedAction, digest_of
from ingot.engine.protobuf_wire import field, number, text


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


def _pairs(field_number: int, pairs: Iterable[tuple[str, str]]) -> bytes:
    """Return a field for each pair: a message with a name and a value."""
    return b"".join(
        [field(field_number, text(1, name) + text(2, value)) for name, value in pairs]
    )
