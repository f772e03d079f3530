"""Encode action results as the messages in `ac/`, and decode them.

They are `ActionResult` messages of Bazel's remote-execution API, so that Bazel and
cache servers read them too.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import zlib
from collections.abc import Iterable
from functools import cache

from ingot.engine.action_keys import digest_message
from ingot.engine.actions import (
    Action,
    ActionResult,
    Digest,
    InlineText,
    ResolvedAction,
)
from ingot.engine.protobuf_wire import CorruptMessage, Message, field, number, text

# Types of metadata: the task that an action ran for, a message of the action, a
# signature, and a mark. Other programs skip types that they do not know. Stored inside
# of the result, they take no further file, upload or request.
TASK_TYPE = "ingot/task"
MESSAGE_TYPE = "ingot/message"
SIGNATURE_TYPE = "ingot/signature"
MADE_HERE_TYPE = "ingot/made-here"

# Compressed texts up to this size are stored: nearly all specifications of models with
# 30 blocks. A shared cache may send anything, so none is unpacked beyond the second
# size.
PACKED_BYTES = 8 << 10
UNPACKED_BYTES = 1 << 20

# All texts of one result, and all inputs of one action, take less than this. The few
# messages of a cache's entry may stand for any number of them: 60 folders, each of
# which names the next one twice, are 2^60.
TEXTS_BYTES = 8 << 20
INPUTS_BYTES = 8 << 20

# What an input takes in addition to its path.
DIGEST_BYTES = 64

# Only this names a file of the store; anything else could name a file outside of it.
HASH = re.compile(r"[0-9a-f]{64}")


def encode_result(result: ActionResult) -> bytes:
    """Return the result as an `ActionResult` message."""
    contents = {digest: field(5, content) for digest, content in result.contents}
    content = b"".join(
        [
            field(
                2,
                text(1, path)
                + field(2, digest_message(digest))
                + contents.get(digest, b""),
            )
            for path, digest in result.outputs
        ]
    )
    content += number(4, result.exit_code)
    if result.log is not None:
        content += contents.get(result.log, b"") + field(6, digest_message(result.log))
    metadata = encode_metadata(MESSAGE_TYPE, *result.messages)
    if result.task:
        # Whole microseconds, which come back as they were: a signature covers them.
        seconds, microseconds = divmod(round(result.wall_ms * 1e3), 1_000_000)
        took = number(1, seconds) + number(2, microseconds * 1000)
        metadata += encode_metadata(TASK_TYPE, result.task.encode()) + field(12, took)
    if result.signature:
        metadata += encode_metadata(SIGNATURE_TYPE, result.signature)
    if result.made_here:
        metadata += encode_metadata(MADE_HERE_TYPE, b"1")
    return content + field(9, metadata) if metadata else content


def encode_metadata(kind: str, *values: bytes) -> bytes:
    """Return metadata fields of a result: values of one type, for any purpose."""
    name = text(1, kind)
    return b"".join([field(11, name + field(2, value)) for value in values])


def decode_metadata(metadata: Message) -> dict[str, list[bytes]]:
    """Return the values in a result's metadata, by type.

    Raises: CorruptMessage if a value is not a message.
    """
    found: dict[str, list[bytes]] = {}
    for item in metadata.all_at(11):
        fact = Message(item)
        found.setdefault(fact.text_at(1), []).append(fact.bytes_at(2))
    return found


def decode_result(content: bytes) -> ActionResult:
    """Return the result that the message encodes.

    Raises: CorruptMessage if it is not an action result.
    """
    message = Message(content)
    metadata = Message(message.bytes_at(9))
    values = decode_metadata(metadata)
    took = Message(metadata.bytes_at(12))
    files = [Message(item) for item in message.all_at(2)]
    outputs = [(file.text_at(1), _digest_from(file.bytes_at(2))) for file in files]
    has_log = Message(message.bytes_at(6)).text_at(1)
    log = _digest_from(message.bytes_at(6)) if has_log else None
    holders = [(digest, file) for (_, digest), file in zip(outputs, files, strict=True)]
    if log is not None:
        holders.append((log, message))
    contents = {digest: holder.bytes_at(5) for digest, holder in holders}
    return ActionResult(
        outputs=tuple(outputs),
        exit_code=message.number_at(4, 32),
        log=log,
        task=values.get(TASK_TYPE, [b""])[0].decode(errors="replace"),
        wall_ms=took.number_at(1, 64) * 1e3 + took.number_at(2, 32) / 1e6,
        messages=tuple(values.get(MESSAGE_TYPE, ())),
        contents=tuple([item for item in contents.items() if item[1]]),
        signature=values.get(SIGNATURE_TYPE, [b""])[0],
        made_here=MADE_HERE_TYPE in values,
    )


def result_of(key: str, content: bytes) -> ActionResult:
    """Return the result that the message encodes, which carries its action's messages.

    Raises: CorruptMessage if it is not an action result, or that of another key.
    """
    result = decode_result(content)
    # A power cut may leave an empty file, which is a message of no outputs.
    if result.outputs and not belongs_to(key, result):
        raise CorruptMessage("it is the result of another action")
    return result


def belongs_to(key: str, result: ActionResult) -> bool:
    """Return whether the result carries the `Action` message that is this key.

    Nothing else in a result depends on the key: without the message, a cache that mixes
    up two entries would exchange their outputs unnoticed.
    """
    own = result.messages[0] if result.messages else b""
    return hashlib.sha256(own).hexdigest() == key


def decode_action(key: str, messages: Iterable[bytes]) -> ResolvedAction:
    """Return the action with that key from its messages.

    Raises: CorruptMessage if the messages are not those of the action.
    """
    contents = {hashlib.sha256(content).hexdigest(): content for content in messages}

    # A malicious tree may lead to one folder in many ways.
    @cache
    def read(name: str) -> Message:
        if name not in contents:
            raise CorruptMessage(f"no message {name[:12]}")
        return Message(contents[name])

    @cache
    def files(folder: str) -> list[tuple[str, Digest]]:
        nodes = map(Message, read(folder).all_at(1))
        return [(node.text_at(1), _digest_from(node.bytes_at(2))) for node in nodes]

    @cache
    def folders(folder: str) -> list[tuple[str, str]]:
        nodes = map(Message, read(folder).all_at(2))
        return [(f"{node.text_at(1)}/", _hash_at(node, 2)) for node in nodes]

    action = read(key)
    command = read(_hash_at(action, 1))
    inputs: list[tuple[str, Digest]] = []
    pending = [("", _hash_at(action, 2))]
    size_bytes = 0
    while pending:
        prefix, folder = pending.pop()
        for name, _ in (*files(folder), *folders(folder)):
            size_bytes += len(prefix) + len(name) + DIGEST_BYTES
        if size_bytes > INPUTS_BYTES:
            raise CorruptMessage(f"its inputs take more than {INPUTS_BYTES} bytes")
        inputs += [(prefix + name, digest) for name, digest in files(folder)]
        pending += [(prefix + name, below) for name, below in folders(folder)]
    return ResolvedAction(
        argv=command.texts_at(1),
        env=_pairs_at(command, 2),
        inputs=tuple(sorted(inputs)),
        outputs=command.texts_at(7),
        platform=_pairs_at(Message(action.bytes_at(10)), 1),
    )


def pack_texts(action: Action) -> tuple[bytes, ...]:
    """Return the small JSON texts among the action's inputs, compressed.

    No blob has them: without them `doit why` could not show what changed in them.
    """
    texts = [
        zlib.compress(source.text.encode())
        for path, source in action.inputs
        if isinstance(source, InlineText) and path.endswith(".json")
    ]
    return tuple([text for text in texts if len(text) <= PACKED_BYTES])


def unpack_texts(messages: Iterable[bytes]) -> dict[str, str]:
    """Return the texts among the messages, by the sha256 of their content."""
    found = {}
    left_bytes = TEXTS_BYTES
    for message in messages:
        unpacking = zlib.decompressobj()
        # No other message starts with a byte that zlib starts with.
        with contextlib.suppress(zlib.error, UnicodeDecodeError):
            content = unpacking.decompress(message, UNPACKED_BYTES)
            left_bytes -= len(content)
            if left_bytes < 0:
                break
            if unpacking.eof:
                found[hashlib.sha256(content).hexdigest()] = content.decode()
    return found


def checked_digest(hash: str, size_bytes: int) -> Digest:
    """Return the digest that a file, a cache or another machine states.

    Raises: CorruptMessage if the hash is not a sha256: it becomes part of a path.
    """
    if HASH.fullmatch(hash) is None or size_bytes < 0:
        raise CorruptMessage(f"not a digest: '{hash[:80]}', {size_bytes} bytes")
    return Digest(hash, size_bytes)


def _digest_from(content: bytes) -> Digest:
    message = Message(content)
    return checked_digest(message.text_at(1), message.number_at(2, 64))


def _hash_at(message: Message, field_number: int) -> str:
    """Return the hash of the digest in a field."""
    return Message(message.bytes_at(field_number)).text_at(1)


def _pairs_at(message: Message, field_number: int) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a name and a value in a repeated field."""
    pairs = map(Message, message.all_at(field_number))
    return tuple((pair.text_at(1), pair.text_at(2)) for pair in pairs)
