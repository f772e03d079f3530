"""Read the fields of a protobuf message without the protobuf library.

Every cache hit reads such messages; fields that nobody asks for are skipped, as
protobuf does. For a repeated singular field protobuf's rules apply: the last number
counts, and two messages are merged.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

# The wire types: varint, 8 bytes, length and bytes, 4 bytes.
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5


class CorruptMessage(ValueError):
    """The bytes are not a message of the expected kind."""


class Message:
    """The fields of one message."""

    __slots__ = ("_bytes", "_numbers")

    def __init__(self, content: bytes) -> None:
        """Read all fields.

        Raises: CorruptMessage where the bytes are not a message.
        """
        self._bytes: dict[int, list[bytes]] = {}
        self._numbers: dict[int, int] = {}
        at, end = 0, len(content)
        while at < end:
            # Nearly all numbers have one byte; a call costs as much as the rest.
            key = content[at]
            key, at = (key, at + 1) if key < 0x80 else _varint(content, at)
            place, kind = key >> 3, key & 7
            if not 0 < place < 1 << 29:
                raise CorruptMessage(f"invalid field number {place}")
            if kind == BYTES:
                size = content[at] if at < end else 0x80
                size, at = (size, at + 1) if size < 0x80 else _varint(content, at)
                self._bytes.setdefault(place, []).append(content[at : at + size])
                at += size
            elif kind == VARINT:
                self._numbers[place], at = _varint(content, at)
            elif kind in (EIGHT, FOUR):
                at += 8 if kind == EIGHT else 4
            else:
                raise CorruptMessage(f"invalid wire type {kind}")
        if at > end:
            raise CorruptMessage("it ends inside of a field")

    def all_at(self, place: int) -> list[bytes]:
        """Return every value of a repeated field."""
        return self._bytes.get(place, [])

    def bytes_at(self, place: int) -> bytes:
        """Return the message in a field; b"" where there is none."""
        return b"".join(self._bytes.get(place, ()))

    def text_at(self, place: int) -> str:
        """Return the text in a field, or "".

        Raises: CorruptMessage where it is not a text.
        """
        try:
            return str(self._bytes.get(place, (b"",))[-1], "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptMessage(f"not a text: {error}") from error

    def number_at(self, place: int, bits: int) -> int:
        """Return the signed number with so many bits in a field, or 0."""
        value = self._numbers.get(place, 0) & (1 << bits) - 1
        return value - (1 << bits) if value >> bits - 1 else value


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number at this offset, and the offset after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise CorruptMessage("it ends inside of a number")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CorruptMessage("a number has more than ten bytes")
