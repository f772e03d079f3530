from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import pytest

from ingot.codec import from_json, to_json


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class Whole:
    parts: tuple[Part, ...]
    pair: tuple[str, float]
    part: Part | None
    counts: dict[str, int]
    anything: Any
    flag: bool = False


WHOLE = Whole(
    (Part("a", (1, "seq")), Part("b", ())),
    ("rope", 1e4),
    None,
    {"z": 1, "a": 2},
    [1, {"x": None}],
    True,
)


def test_a_value_comes_back_equal() -> None:
    assert from_json(Whole, to_json(WHOLE)) == WHOLE
    assert from_json(Whole, to_json(WHOLE, indent=True)) == WHOLE


def test_the_text_is_what_the_library_json_writes() -> None:
    value = replace(WHOLE, anything=['"ü', "", -1, 0.1, 1e30, math.inf, False, [], {}])
    plain = asdict(value)
    assert to_json(value, indent=True) == json.dumps(plain, sort_keys=True, indent=1)
    compact = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert to_json(value) == compact


def test_equal_values_have_equal_texts_whatever_the_order_of_keys() -> None:
    other = Whole(WHOLE.parts, WHOLE.pair, None, {"a": 2, "z": 1}, WHOLE.anything, True)
    assert to_json(other) == to_json(WHOLE)


def test_a_whole_number_is_a_float_where_one_is_wanted() -> None:
    assert from_json(tuple[float, ...], "[1, 2.5]") == (1.0, 2.5)
    assert from_json(tuple[float | None, ...], "[1, null]") == (1.0, None)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Part, "[]", "expected Part, found []"),
        (
            Part,
            '{"name": "a"}',
            "expected the fields of Part; missing ['shape'], unknown []",
        ),
        (
            Part,
            '{"name": "a", "shape": [], "x": 1}',
            "expected the fields of Part; missing [], unknown ['x']",
        ),
        (Part, '{"name": 1, "shape": []}', "expected str, found 1"),
        (Part, '{"name": "a", "shape": [true]}', "expected int or str, found True"),
        (Part, '{"name": "a", "shape": "ab"}', "expected a list, found 'ab'"),
        (tuple[str, int], '["a"]', "expected a list of 2, found ['a']"),
        (dict[str, int], "[1]", "expected a mapping, found [1]"),
        (int, "true", "expected int, found True"),
        (Literal["a", "b"], '"c"', "expected 'a' or 'b', found 'c'"),
    ],
)
def test_a_text_that_stands_for_no_value_is_an_error(
    kind: Any, text: str, message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        from_json(kind, text)


def test_a_field_with_a_default_may_be_left_out() -> None:
    text = to_json(WHOLE).replace('"flag":true,', "")
    assert from_json(Whole, text).flag is False


def test_what_is_no_value_is_not_written() -> None:
    with pytest.raises(TypeError, match="set cannot be written as JSON"):
        to_json({1, 2})
