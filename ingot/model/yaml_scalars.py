"""Give a plain YAML scalar its value, unless YAML readers disagree about it.

`1e-5`, `no` and `010` mean different things in YAML 1.1 and 1.2. They become
`Ambiguous`, which has the text to write instead.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_NUMBER_STARTS = frozenset("0123456789-+.")
# Every such integer fits 64 bits, with and without a sign.
_MAX_DIGITS = 18
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)\.[0-9]+([eE][-+][0-9]+)?")
_EXPONENT = re.compile(r"([-+]?(?:0|[1-9][0-9]*))(\.[0-9]*)?[eE]([-+]?)([0-9]+)")
# Some readers read these as a number, a date or a time of day.
_NUMBER_LIKE = re.compile(
    r"[-+]?(0[0-9_]+|0[xob][0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?|\.inf|\.Inf|\.INF)"
    r"|\.nan|\.NaN|\.NAN|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*"
)
_BOOLEAN_LIKE = {"yes": "true", "on": "true", "no": "false", "off": "false"}


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A plain scalar that YAML readers disagree about, and what to write instead."""

    text: str
    hint: str


def scalar(text: str) -> str | int | float | bool | Ambiguous | None:
    """Return the value of a plain scalar, `Ambiguous` where YAML readers differ.

    Source: YAML 1.1 type repository; YAML 1.2.2, 10.3.2 (core schema).
    """
    if text[:1] in _NUMBER_STARTS:
        return _number(text)
    match text:
        case "true" | "false":
            return text == "true"
        case "" | "null" | "~":
            return None
        case "Null" | "NULL" | "<<" | "=":
            return Ambiguous(text, f'write "{text}" in quotes if it is text')
    word = text.lower()
    if word in ("true", "false"):
        return Ambiguous(text, f"write {word}")
    if word in _BOOLEAN_LIKE:
        truth = _BOOLEAN_LIKE[word]
        return Ambiguous(text, f'write {truth}, or "{text}" in quotes if it is text')
    return text


def _number(text: str) -> str | int | float | Ambiguous:
    """Return the value of a plain scalar that starts as a number does."""
    if len(text) <= _MAX_DIGITS and _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(value := float(text)):
        return value
    if (match := _EXPONENT.fullmatch(text)) and not _FLOAT.fullmatch(text):
        whole, fraction, sign, power = match.groups()
        fraction = ".0" if fraction in (None, ".") else fraction
        return Ambiguous(text, f"write {whole}{fraction}e{sign or '+'}{power}")
    if _NUMBER_LIKE.fullmatch(text) or _FLOAT.fullmatch(text):
        if text.isdigit() and len(text) <= _MAX_DIGITS:
            number = text.lstrip("0")
            return Ambiguous(text, f'write {number}, or "{text}" in quotes')
        return Ambiguous(text, f'write "{text}" in quotes if it is text')
    return text
