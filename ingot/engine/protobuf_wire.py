"""Read and write protobuf messages without the protobuf library.

Every key and every cache hit needs some: the library takes five times as long, and 50
ms to import. As in the library, unknown fields are skipped, and if a singular field
occurs twice, the last number counts and two messages are merged.

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

        Raises: CorruptMessage if the bytes are not a message.
        """
        self._bytes: dict[int, list[bytes]] = {}
        self._numbers: dict[int, int] = {}
        at, end = 0, len(content)
        while at < end:
            # Nearly all numbers have one byte; a call costs as much as the rest.
            key = content[at]
            key, at = (key, at + 1) if key < 0x80 else _read_varint(content, at)
            field_number, kind = key >> 3, key & 7
            if not 0 < field_number < 1 << 29:
                raise CorruptMessage(f"invalid field number {field_number}")
            if kind == BYTES:
                size = content[at] if at < end else 0x80
                size, at = (size, at + 1) if size < 0x80 else _read_varint(content, at)
                self._bytes.setdefault(field_number, []).append(content[at : at + size])
                at += size
            elif kind == VARINT:
                self._numbers[field_number], at = _read_varint(content, at)
            elif kind in (EIGHT, FOUR):
                at += 8 if kind == EIGHT else 4
            else:
                raise CorruptMessage(f"invalid wire type {kind}")
        if at > end:
            raise CorruptMessage("it ends inside of a field")

    def all_at(self, field_number: int) -> list[bytes]:
        """Return every value of a repeated field."""
        return self._bytes.get(field_number, [])

    def bytes_at(self, field_number: int) -> bytes:
        """Return the message in a field; b"" if there is none."""
        return b"".join(self._bytes.get(field_number, ()))

    def text_at(self, field_number: int) -> str:
        """Return the text in a field, or "".

        Raises: CorruptMessage if it is not a text.
        """
        return _text(self._bytes.get(field_number, (b"",))[-1])

    def texts_at(self, field_number: int) -> tuple[str, ...]:
        """Return every text of a repeated field.

        Raises: CorruptMessage if one is not a text.
        """
        return tuple(map(_text, self.all_at(field_number)))

    def number_at(self, field_number: int, bits: int) -> int:
        """Return the signed number with so many bits in a field, or 0."""
        value = self._numbers.get(field_number, 0) & (1 << bits) - 1
        return value - (1 << bits) if value >> bits - 1 else value


def _text(content: bytes) -> str:
    try:
        return str(content, "utf-8")
    except UnicodeDecodeError as error:
        raise CorruptMessage(f"not a text: {error}") from error


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
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


def field(field_number: int, content: bytes) -> bytes:
    """Return a field with bytes, a message, or one of several values."""
    return _varint(field_number << 3 | 2) + _varint(len(content)) + content


def text(field_number: int, value: str) -> bytes:
    """Return a text field; b"" for an empty text."""
    return field(field_number, value.encode()) if value else b""


def number(field_number: int, value: int) -> bytes:
    """Return a number field; b"" for 0."""
    # A negative number is written as the 64 bits of its two's complement.
    return _varint(field_number << 3) + _varint(value & (1 << 64) - 1) if value else b""


def _varint(value: int) -> bytes:
    """Return the number as bytes of 7 bits each, the lowest first."""
    if value < 0x80:
        return _BYTES[value]
    groups = bytearray()
    while value >= 0x80:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


_BYTES = [bytes([value]) for value in range(0x80)]
