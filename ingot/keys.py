"""A bound action in; its key, and the messages that spell it out, out.

The messages are those of Bazel's remote-execution API and the key is the sha256 of the
`Action` message, so any cache or executor that speaks the
API knows it. Protobuf is imported by nothing else than this module and
`ingot.edges.results`: it costs 50 ms, and a build with nothing to do needs no key.

Source: build.bazel.remote.execution.v2, remote_execution.proto.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ingot import reapi_pb2 as reapi
from ingot.values import BoundAction, Digest

if TYPE_CHECKING:
    from google.protobuf.message import Message


@dataclass(frozen=True, slots=True)
class Encoded:
    """An action as messages: its key, and every message by digest."""

    key: Digest
    blobs: tuple[tuple[Digest, bytes], ...]

    @property
    def messages(self) -> tuple[Digest, ...]:
        """Return the digests of all messages, the key first."""
        return (self.key, *(digest for digest, _ in self.blobs if digest != self.key))


def encode(bound: BoundAction) -> Encoded:
    """Return the action's key and messages."""
    blobs: dict[Digest, bytes] = {}
    platform = reapi.Platform(
        properties=[
            reapi.Platform.Property(name=name, value=value)
            for name, value in bound.platform
        ]
    )
    command = reapi.Command(
        arguments=bound.argv,
        environment_variables=[
            reapi.Command.EnvironmentVariable(name=name, value=value)
            for name, value in bound.env
        ],
        output_paths=bound.outputs,
        platform=platform,
    )
    root = _directory([(path.split("/"), d) for path, d in bound.inputs], blobs)
    action = reapi.Action(
        command_digest=message(_blob(command, blobs)),
        input_root_digest=message(root),
        platform=platform,
    )
    return Encoded(_blob(action, blobs), tuple(blobs.items()))


def digest_of(content: bytes) -> Digest:
    """Return the content's digest."""
    return Digest(hashlib.sha256(content).hexdigest(), len(content))


def _directory(
    files: list[tuple[list[str], Digest]], blobs: dict[Digest, bytes]
) -> Digest:
    """Return the digest of the directory that holds the files; add it to the blobs."""
    children: dict[str, list[tuple[list[str], Digest]]] = {}
    nodes = []
    for parts, digest in files:
        if len(parts) == 1:
            nodes.append(reapi.FileNode(name=parts[0], digest=message(digest)))
        else:
            children.setdefault(parts[0], []).append((parts[1:], digest))
    directory = reapi.Directory(
        files=sorted(nodes, key=lambda node: node.name),
        directories=[
            reapi.DirectoryNode(
                name=name, digest=message(_directory(children[name], blobs))
            )
            for name in sorted(children)
        ],
    )
    return _blob(directory, blobs)


def _blob(message: Message, blobs: dict[Digest, bytes]) -> Digest:
    content = message.SerializeToString(deterministic=True)
    digest = digest_of(content)
    blobs[digest] = content
    return digest


def message(digest: Digest) -> reapi.Digest:
    """Return the digest as a message."""
    return reapi.Digest(hash=digest.hash, size_bytes=digest.size_bytes)
