"""Derive the numbers of a manifest from what a checkpoint states."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Fact, Stated, Survey
from ingot.imports.families import (
    ATTENTION_DIM,
    EQUAL_IN_GGUF,
    N_VOCAB,
    OUTPUT_DIVISOR,
    ROTATED_SHARE,
    Family,
    Number,
    Rule,
)
from ingot.weights.strict_json import short

# Larger than any model, so that a corrupt or hostile file cannot make a loop endless.
_LARGEST = 2**31 - 1


def read_numbers(survey: Survey, errors: list[IngotError]) -> dict[str, Fact]:
    """Return the numbers by name; add errors for missing or wrong ones."""
    assert survey.family
    found: dict[str, Fact] = {}
    for number in survey.family.numbers:
        fact = _number(survey, number, found, errors)
        if fact is not None:
            found[number.name] = fact
    errors += _contradictions(survey, found)
    _derive(found)
    return found


def read_ends(survey: Survey, errors: list[IngotError]) -> dict[int, str]:
    """Return the tokens that end a text, each with its origin.

    They may contain ids that are not tokens: -1 means that there is none.
    """
    found: dict[int, str] = {}
    for stated in survey.ends:
        given = stated.value if isinstance(stated.value, list) else [stated.value]
        for token in given:
            if type(token) is int:
                found.setdefault(token, stated.origin)
            elif token is not None:
                errors.append(_wrong(stated, "a token's id, or several"))
    return found


def check_rules(survey: Survey, family: Family) -> Iterator[IngotError]:
    """Yield an error for every value that the architecture does not compute."""
    for rule in family.rules(survey.naming):
        stated = survey.stated.get(rule.key)
        if stated is not None and not _is_allowed(stated.value, rule):
            yield _wrong(stated, _expected(rule), "not supported; ", rule.hint)


def _wrong(stated: Stated, expected: str, what: str = "", hint: str = "") -> IngotError:
    found = spelled(stated.value)
    return IngotError(
        f"{stated.origin}: {what}expected {expected}, found {found}", hint
    )


def spelled(value: Any) -> str:
    """Return a value as messages quote it, in JSON's words rather than Python's."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return short(value)


def _number(
    survey: Survey,
    number: Number,
    found: dict[str, Fact],
    errors: list[IngotError],
) -> Fact | None:
    key = number.key(survey.naming)
    stated = survey.stated.get(key)
    # A null counts as a missing key, as in `transformers`.
    if stated is not None and stated.value is not None:
        if _fits(stated.value, number.whole):
            return Fact(stated.value, stated.origin)
        kind = "an integer, 1 or more" if number.whole else "a number above 0"
        errors.append(_wrong(stated, kind))
        return None
    default = number.default(survey.naming)
    if default is None:
        place = f"{survey.file}: {_full(key, survey)}"
        errors.append(IngotError(f"{place}: missing; expected a number"))
        return None
    if not key and not isinstance(default, str):
        return Fact(default, "the same in all such checkpoints")
    if not isinstance(default, str):
        return Fact(default, f"not in {survey.file}; {_whose_default(survey)}")
    return _made_of(default, found, survey, key, errors)


def _made_of(
    default: str,
    found: dict[str, Fact],
    survey: Survey,
    key: str,
    errors: list[IngotError],
) -> Fact | None:
    """Return another number, or the quotient of two; None if one is missing."""
    name, _, divisor = default.partition("/")
    if name not in found or (divisor and divisor not in found):
        return None
    value = found[name].value
    if not divisor:
        return Fact(value, f"as {name}")
    if value % found[divisor].value:
        errors.append(
            IngotError(
                f"{survey.file}: {_full(key, survey)}: missing, and {name} = {value} is"
                f" not a multiple of {divisor} = {found[divisor].value}"
            )
        )
        return None
    return Fact(value // found[divisor].value, f"{name} / {divisor}")


def _full(key: str, survey: Survey) -> str:
    """Return the key as the file has it; GGUF prefixes the architecture's name."""
    if survey.naming == "hf" or key == N_VOCAB:
        return key
    assert survey.family
    return f"{survey.family.architecture}.{key}"


def _whose_default(survey: Survey) -> str:
    assert survey.family
    whose = "llama.cpp" if survey.naming == "gguf" else survey.family.hf_class
    return f"the default of {whose}"


def _fits(value: Any, whole: bool) -> bool:
    if type(value) is int:
        return 0 < value <= _LARGEST
    return not whole and type(value) is float and 0 < value < math.inf


def _contradictions(survey: Survey, found: dict[str, Fact]) -> Iterator[IngotError]:
    heads, groups = found.get("n_head"), found.get("n_head_kv")
    if heads and groups and heads.value % groups.value:
        yield IngotError(
            f"{heads.origin}: expected a multiple of n_head_kv = {groups.value}"
            f" ({groups.origin}), found {heads.value}"
        )
    dim = found.get("head_dim")
    if dim and dim.value % 2:
        yield IngotError(
            f"{dim.origin}: expected an even head_dim, whose halves are rotated, found"
            f" {dim.value}"
        )
    for key, name in EQUAL_IN_GGUF if survey.naming == "gguf" else ():
        stated, fact = survey.stated.get(key), found.get(name)
        if stated and fact and stated.value != fact.value:
            yield _wrong(stated, f"{name} = {fact.value} ({fact.origin})")


def _derive(found: dict[str, Fact]) -> None:
    """Add the numbers that are computed from others."""
    if scaled := found.get(ATTENTION_DIM):
        value = scaled.value**-0.5
        origin = scaled.origin.removeprefix("as ")
        found["attention_scale"] = Fact(float(value), f"1 / sqrt({origin})")
    if clamp := found.get("attn_clamp_high"):
        found["attn_clamp_low"] = Fact(-clamp.value, "-attn_clamp_high")
    if scaled := found.get(OUTPUT_DIVISOR):
        origin = f"1 / {scaled.origin.rpartition(' ')[2]}"
        found["output_scale"] = Fact(1 / scaled.value, origin)
    if (share := found.get(ROTATED_SHARE)) and (dim := found.get("head_dim")):
        rotated = int(dim.value * share.value)
        found["n_rot"] = Fact(rotated, f"head_dim * {share.value:g}, {share.origin}")
    if width := found.get("n_embd"):
        scale = Fact(math.sqrt(width.value), "sqrt(n_embd)")
        found.setdefault("embedding_scale", scale)


def _is_allowed(value: Any, rule: Rule) -> bool:
    if _is_in(value, rule.rejected):
        return False
    return not rule.allowed or _is_in(value, rule.allowed)


def _is_in(value: Any, values: tuple[Any, ...]) -> bool:
    # In Python, False equals 0.
    return any(
        value == other and isinstance(value, bool) == isinstance(other, bool)
        for other in values
    )


def _expected(rule: Rule) -> str:
    if not rule.allowed:
        return f"anything but {' or '.join(map(str, rule.rejected))}"
    return " or ".join(map(spelled, rule.allowed))
