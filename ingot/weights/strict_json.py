"""Parse the bytes of a JSON object strictly; lenient JSON is an error."""

from __future__ import annotations

import json
from typing import Any

from ingot.errors import IngotError

_HINT = "the file is damaged, or was not written by a JSON library"


def parse_object(text: bytes, label: str) -> dict[str, Any]:
    """Return the JSON object; `label` names the file in messages.

    Raises: IngotError for text that is not UTF-8 or not JSON, a duplicate key (where
        other parsers keep the last), NaN and Infinity, and any top-level value other
        than an object.
    """

    def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise IngotError(
                    f"{label}: key {short(key)} is written twice in one object", _HINT
                )
            result[key] = value
        return result

    def reject_constant(word: str) -> Any:
        raise ValueError(f"'{word}' is not a JSON number")

    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=unique_keys,
            parse_constant=reject_constant,
        )
    except UnicodeDecodeError as error:
        raise IngotError(
            f"{label}: not UTF-8; found byte 0x{text[error.start]:02x} at"
            f" {error.start} of the JSON text",
            _HINT,
        ) from error
    except (ValueError, RecursionError) as error:
        raise IngotError(f"{label}: not JSON; {error}", _HINT) from error
    if not isinstance(value, dict):
        raise IngotError(
            f"{label}: expected a JSON object, found {short(value)}", _HINT
        )
    return value


def short(value: Any) -> str:
    """Return the value as messages quote it, at most 80 characters."""
    try:
        text = repr(value)
    except ValueError:
        # Python does not format an integer of more than 4300 digits.
        text = "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:77]}..."
