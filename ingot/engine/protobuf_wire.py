"""The bytes of a protobuf message in, the values of its fields out.

For messages that every hit of the cache reads; what is not asked for is skipped, as
protobuf does. A field that is there twice counts as protobuf has it: the later number,
the two messages as one.

Source: protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

# The kinds of fields: numbers, 8 bytes, bytes with their length, 4 bytes.
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5


class CorruptMessage(ValueError):
    """The bytes are no message of the kind that is expected."""


class Message:
    """The fields of one message."""

    __slots__ = ("_bytes", "_numbers")

    def __init__(self, content: bytes) -> None:
        """Read all fields.

        Raises: CorruptMessage where the bytes are no message.
        """
        self._bytes: dict[int, list[bytes]] = {}
        self._numbers: dict[int, int] = {}
        at, end = 0, len(content)
        while at < end:
            # Nearly all numbers are of one byte; a call costs as much as the rest.
            key = content[at]
            key, at = (key, at + 1) if key < 0x80 else _varint(content, at)
            place, kind = key >> 3, key & 7
            if not 0 < place < 1 << 29:
                raise CorruptMessage(f"no field has the number {place}")
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
                raise CorruptMessage(f"no field is of the kind {kind}")
        if at > end:
            raise CorruptMessage("it ends within a field")

    def all_at(self, place: int) -> list[bytes]:
        """Return every value of a field that may be there many times."""
        return self._bytes.get(place, [])

    def bytes_at(self, place: int) -> bytes:
        """Return the message at a place; an empty one where there is none."""
        return b"".join(self._bytes.get(place, ()))

    def text_at(self, place: int) -> str:
        """Return the text at a place, or "".

        Raises: CorruptMessage where it is none.
        """
        try:
            return str(self._bytes.get(place, (b"",))[-1], "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptMessage(f"no text: {error}") from error

    def number_at(self, place: int, bits: int) -> int:
        """Return the signed number of so many bits at a place, or 0."""
        value = self._numbers.get(place, 0) & (1 << bits) - 1
        return value - (1 << bits) if value >> bits - 1 else value


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the number that is there, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            raise CorruptMessage("it ends within a number")
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CorruptMessage("a number has more than ten bytes")
