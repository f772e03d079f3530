"""Keys: equal actions, equal keys; every field counts; the bytes are REAPI's."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from ingot import reapi_pb2 as reapi
from ingot.keys import encode
from ingot.values import BoundAction, Digest

A = Digest("a" * 64, 3)
B = Digest("b" * 64, 4)
ACTION = BoundAction(
    argv=("iree-compile", "linked.mlir", "-o", "model.vmfb"),
    env=(("LANG", "C"),),
    inputs=(("ingot/bake.py", A), ("linked.mlir", B)),
    outputs=("model.vmfb",),
    platform=(("tool:iree-base-compiler", "3.13.0 abc"),),
)


def test_equal_actions_have_equal_keys() -> None:
    assert encode(ACTION) == encode(replace(ACTION))


@pytest.mark.parametrize(
    "change",
    [
        {"argv": ("iree-compile", "linked.mlir", "-o", "other.vmfb")},
        {"env": (("LANG", "C.UTF-8"),)},
        {"inputs": (("ingot/bake.py", A), ("linked.mlir", A))},
        {"inputs": (("ingot/bake2.py", A), ("linked.mlir", B))},
        {"inputs": (("linked.mlir", B),)},
        {"outputs": ("model.vmfb", "log.txt")},
        {"platform": (("tool:iree-base-compiler", "3.13.0 abd"),)},
    ],
    ids=["argv", "env", "content", "name", "missing input", "outputs", "tool"],
)
def test_every_field_changes_the_key(change: dict[str, object]) -> None:
    assert encode(replace(ACTION, **change)).key != encode(ACTION).key  # type: ignore[arg-type]


def test_the_key_is_the_digest_of_an_action_message_whose_parts_are_blobs() -> None:
    encoded = encode(ACTION)
    blobs = dict(encoded.blobs)
    for digest, content in encoded.blobs:
        assert digest.hash == hashlib.sha256(content).hexdigest()
        assert digest.size_bytes == len(content)
    action = reapi.Action.FromString(blobs[encoded.key])
    command = reapi.Command.FromString(blobs[_digest(action.command_digest)])
    assert tuple(command.arguments) == ACTION.argv
    assert list(command.output_paths) == ["model.vmfb"]
    root = reapi.Directory.FromString(blobs[_digest(action.input_root_digest)])
    assert [node.name for node in root.files] == ["linked.mlir"]
    assert [node.name for node in root.directories] == ["ingot"]
    child = reapi.Directory.FromString(blobs[_digest(root.directories[0].digest)])
    assert [(node.name, _digest(node.digest)) for node in child.files] == [
        ("bake.py", A)
    ]


def test_the_bytes_are_those_of_the_published_protocol() -> None:
    # Digest{hash: "aa", size_bytes: 5}: field 1 length-delimited, field 2 varint.
    message = reapi.Digest(hash="aa", size_bytes=5)
    assert message.SerializeToString(deterministic=True) == b"\x0a\x02aa\x10\x05"
    # FileNode: name = 1, digest = 2, is_executable = 4.
    node = reapi.FileNode(name="f", digest=message, is_executable=True)
    assert node.SerializeToString(deterministic=True) == (
        b"\x0a\x01f\x12\x06\x0a\x02aa\x10\x05\x20\x01"
    )


def _digest(message: reapi.Digest) -> Digest:
    return Digest(message.hash, message.size_bytes)
