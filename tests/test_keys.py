"""Test that equal actions have equal keys, and that the bytes are those of REAPI."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

import pytest
from google.protobuf.message import DecodeError, Message

from ingot.engine import reapi_pb2 as reapi
from ingot.engine.action_keys import encode_action
from ingot.engine.action_results import decode_action, decode_result, encode_result
from ingot.engine.actions import ActionResult, Digest, ResolvedAction
from ingot.engine.protobuf_wire import CorruptMessage

A = Digest("a" * 64, 3)
B = Digest("b" * 64, 4)
ACTION = ResolvedAction(
    argv=("iree-compile", "linked.mlir", "-o", "model.vmfb"),
    env=(("LANG", "C"),),
    inputs=(("ingot/bake.py", A), ("linked.mlir", B)),
    outputs=("model.vmfb",),
    platform=(("tool:iree-base-compiler", "3.13.0 abc"),),
)


def test_equal_actions_have_equal_keys() -> None:
    assert encode_action(ACTION) == encode_action(replace(ACTION))


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
    assert encode_action(replace(ACTION, **change)).key != encode_action(ACTION).key  # type: ignore[arg-type]


def test_the_key_is_the_digest_of_an_action_message_whose_parts_are_blobs() -> None:
    encoded = encode_action(ACTION)
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


def test_a_stored_result_contains_its_whole_action() -> None:
    encoded = encode_action(ACTION)
    result = ActionResult((("model.vmfb", A),), messages=encoded.messages)
    kept = decode_result(encode_result(result))
    assert decode_action(encoded.key.hash, kept.messages) == ACTION


def test_the_bytes_are_those_of_the_published_protocol() -> None:
    # Digest{hash: "aa", size_bytes: 5}: field 1 length-delimited, field 2 varint.
    message = reapi.Digest(hash="aa", size_bytes=5)
    assert message.SerializeToString(deterministic=True) == b"\x0a\x02aa\x10\x05"
    # FileNode: name = 1, digest = 2, is_executable = 4.
    node = reapi.FileNode(name="f", digest=message, is_executable=True)
    assert node.SerializeToString(deterministic=True) == (
        b"\x0a\x01f\x12\x06\x0a\x02aa\x10\x05\x20\x01"
    )


@pytest.mark.parametrize(
    "bound",
    [
        ACTION,
        ResolvedAction((), (), (), (), ()),
        ResolvedAction(
            ("sh", "", "-c", "größer" * 100),
            (("EMPTY", ""), ("A", "b")),
            (
                ("a/b/c", Digest("c" * 64, 0)),
                ("a/d", B),
                ("b", Digest("d" * 64, 1 << 40)),
            ),
            ("out/a", "z"),
            (("cpu", "x" * 20_000), ("sandbox", "none")),
        ),
    ],
    ids=["usual", "empty", "odd"],
)
def test_messages_are_byte_for_byte_those_of_protobuf(bound: ResolvedAction) -> None:
    encoded = encode_action(bound)
    blobs = dict(encoded.blobs)
    action = reapi.Action.FromString(blobs[encoded.key])
    command = reapi.Command(
        arguments=bound.argv,
        environment_variables=[
            reapi.Command.EnvironmentVariable(name=name, value=value)
            for name, value in bound.env
        ],
        output_paths=bound.outputs,
        platform=reapi.Platform(
            properties=[
                reapi.Platform.Property(name=name, value=value)
                for name, value in bound.platform
            ]
        ),
    )
    again = reapi.Action(
        command_digest=action.command_digest,
        input_root_digest=action.input_root_digest,
        platform=command.platform,
    )
    assert blobs[_digest(action.command_digest)] == _serialized(command)
    assert blobs[encoded.key] == _serialized(again)
    found: dict[str, Digest] = {}
    pending = [("", _digest(action.input_root_digest))]
    while pending:
        prefix, digest = pending.pop()
        directory = reapi.Directory.FromString(blobs[digest])
        assert blobs[digest] == _serialized(directory)
        found |= {prefix + node.name: _digest(node.digest) for node in directory.files}
        pending += [
            (f"{prefix}{node.name}/", _digest(node.digest))
            for node in directory.directories
        ]
    assert found == dict(bound.inputs)


RESULTS = [
    ActionResult((("out", A), ("b/ü", Digest("c" * 64, 1 << 40))), 0, B, "a:b", 61e3),
    ActionResult((("out", Digest("0" * 64, 0)),), exit_code=-3),
    ActionResult((("a", A), ("b", B)), log=B, contents=((A, b"small"), (B, b"log"))),
    ActionResult(()),
]


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_is_byte_for_byte_that_of_protobuf(result: ActionResult) -> None:
    content = encode_result(result)
    assert _serialized(reapi.ActionResult.FromString(content)) == content
    again = decode_result(content)
    assert again == result
    assert (again.task, again.wall_ms) == (result.task, result.wall_ms)
    assert again.contents == result.contents


def test_a_corrupt_result_is_read_like_protobuf_reads_it() -> None:
    numbers, read = random.Random(7), 0
    kinds = [encode_result(result) for result in RESULTS]
    kinds.append(_serialized(reapi.ActionResult(stdout_raw=b"text", exit_code=7)))
    for _ in range(3000):
        content = bytearray(numbers.choice(kinds) + numbers.choice(kinds) + b"\x20\0")
        for _ in range(numbers.randrange(4)):
            content[numbers.randrange(len(content))] = numbers.randrange(256)
        content = content[: numbers.randrange(1, 2 * len(content))]
        try:
            result = decode_result(bytes(content))
            message = reapi.ActionResult.FromString(bytes(content))
        except (CorruptMessage, DecodeError):
            # Damage of a field that nobody asks for is seen by protobuf alone.
            continue
        files = [(file.path, _digest(file.digest)) for file in message.output_files]
        assert list(result.outputs) == files
        assert result.exit_code == message.exit_code
        assert (result.log is None) == (not message.stdout_digest.hash)
        read += 1
    assert 500 < read < 2500


@pytest.mark.parametrize(
    "content",
    [
        b"\x12",
        b"\x12\x05ab",
        b"\x20" + b"\xff" * 10,
        b"\x02\x00",
        b"\x23",
        b"\x25\x00",
        b"\x12\x03\x0a\x01\xff",
        b"\x12\x03\x0a\x01a",
    ],
    ids=["no length", "short", "long", "place", "kind", "four", "text", "digest"],
)
def test_bytes_that_are_not_a_result_are_rejected(content: bytes) -> None:
    with pytest.raises(CorruptMessage):
        decode_result(content)


def _serialized(message: Message) -> bytes:
    content: bytes = message.SerializeToString(deterministic=True)
    return content


def _digest(message: reapi.Digest) -> Digest:
    return Digest(message.hash, message.size_bytes)
