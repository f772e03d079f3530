"""Test that YAML has positions and exact types, and that unclear YAML is an error."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ingot.model.schema_types import (
    Boolean,
    Choice,
    Either,
    Form,
    Integer,
    ListOf,
    MapOf,
    Number,
    Section,
    Tagged,
    Text,
    build,
    check,
    key,
    optional,
    read,
)
from ingot.model.yaml_nodes import format_errors, load, parse
from ingot.model.yaml_scalars import Ambiguous, scalar


def message(text: str) -> str:
    with pytest.raises(ExceptionGroup) as caught:
        parse(text, "file.yaml")
    return format_errors(caught.value)


def value(text: str, form: Form) -> Any:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Holder(Section):
        at_: Any = key(form, "what is held")

    found, errors = build(parse(f"at_: {text}\n", "file.yaml"), Holder)
    assert not errors
    assert found is not None
    return found.at_


def differences(text: str, form: Form) -> list[str]:
    node = parse(f"at: {text}\n", "file.yaml")
    return [str(error) for error in check(node["at"], form)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-12", -12),
        ("1.0e-5", 1e-5),
        ("-0.5", -0.5),
        ("1.0e+30", 1e30),
        ("true", True),
        ("false", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("rope", "rope"),
        ("3.13.0", "3.13.0"),
        ("y", "y"),
        ("1e5x", "1e5x"),
        ("blk.{layer}.w", "blk.{layer}.w"),
    ],
)
def test_a_plain_scalar_has_one_value(text: str, value: object) -> None:
    found = scalar(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1e-5", "write 1.0e-5"),
        ("1.0e5", "write 1.0e+5"),
        ("-2E3", "write -2.0e+3"),
        ("010", 'write 10, or "010" in quotes'),
        ("0x1f", 'write "0x1f" in quotes if it is text'),
        ("0o17", 'write "0o17" in quotes if it is text'),
        ("1_000", 'write "1_000" in quotes if it is text'),
        (".5", 'write ".5" in quotes if it is text'),
        ("1.", 'write "1." in quotes if it is text'),
        (".inf", 'write ".inf" in quotes if it is text'),
        ("1.0e+999", 'write "1.0e+999" in quotes if it is text'),
        ("12:30", 'write "12:30" in quotes if it is text'),
        ("2024-01-01", 'write "2024-01-01" in quotes if it is text'),
        ("9" * 19, f'write "{"9" * 19}" in quotes if it is text'),
        ("no", 'write false, or "no" in quotes if it is text'),
        ("On", 'write true, or "On" in quotes if it is text'),
        ("True", "write true"),
        ("NULL", 'write "NULL" in quotes if it is text'),
    ],
)
def test_what_readers_differ_on_has_no_value_but_a_hint(text: str, hint: str) -> None:
    assert scalar(text) == Ambiguous(text, hint)


def test_quotes_make_text_of_anything() -> None:
    node = parse("a: 'no'\nb: \"010\"\nc: |\n  1e-5\n", "file.yaml")
    assert [entry.value for entry in node.entries.values()] == ["no", "010", "1e-5\n"]


def test_every_node_knows_its_place_and_its_key_path() -> None:
    node = parse("é: [1, {b: x}]\nc:\n  - d: 2\n", "file.yaml")
    inner = node["é"].items[1]["b"]
    assert (str(inner.position), inner.key) == ("file.yaml:1:12", "é[1].b")
    deep = node["c"].items[0]["d"]
    assert (str(deep.position), deep.key) == ("file.yaml:3:8", "c[0].d")
    error = node["c"].items[0].key_error("d", "unknown key", "did you mean 'e'?")
    assert str(error) == "file.yaml:3:5: c[0].d: unknown key\n  did you mean 'e'?"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "file.yaml:1:1: the file is empty; expected a mapping"),
        ("# a\n", "file.yaml:1:1: the file is empty; expected a mapping"),
        ("- 1\n", "file.yaml:1:1: expected a mapping, found a sequence"),
        ("rope\n", "file.yaml:1:1: expected a mapping, found text 'rope'"),
        ("a: 1\na: 2\n", "file.yaml:2:1: a: repeated key; the first is at line 1"),
        (
            "{a: {b: 1, b: 2}}",
            "file.yaml:1:12: a.b: repeated key; the first is at line 1",
        ),
        ("1: 2\n", "file.yaml:1:1: a key must be text, found integer 1"),
        (
            "on: 2\n",
            "file.yaml:1:1: a key must be text, found 'on'\n"
            '  write true, or "on" in quotes if it is text',
        ),
        ("? [a]\n: 2\n", "file.yaml:1:3: a key must be text, found a sequence"),
        (
            "a: *b\n",
            "file.yaml:1:4: a: alias '*b' is not allowed\n  write the value out",
        ),
        (
            "a: &b 1\n",
            "file.yaml:1:4: a: anchor '&b' is not allowed\n  write the value out",
        ),
        (
            "a: !!str 1\n",
            "file.yaml:1:4: a: tag 'tag:yaml.org,2002:str' is not allowed\n"
            "  remove it; the type follows from the value",
        ),
        ("a:\n\tb: 1\n", "file.yaml:2:1: tab in the indentation\n  indent with spaces"),
        (
            "a: 1\n---\nb: 2\n",
            "file.yaml:2:1: a second document starts here; expected one per file",
        ),
        (
            "a: \x07\n",
            "file.yaml:1:4: control character U+0007 is not allowed",
        ),
        (
            "a: [1\nb: 2\n",
            "file.yaml:2:2: did not find expected ',' or ']', while parsing a flow"
            " sequence that starts at line 1",
        ),
        (
            f"a: {'[' * 40}",
            f"file.yaml:1:36: a{'[0]' * 32}: nested deeper than 32 levels",
        ),
    ],
)
def test_bad_yaml_is_refused_at_its_place(text: str, expected: str) -> None:
    assert message(text) == expected


def test_errors_come_together_in_the_order_of_the_file() -> None:
    assert message("b: *x\na: &y 1\na: 2\n").splitlines()[::2] == [
        "file.yaml:1:4: b: alias '*x' is not allowed",
        "file.yaml:2:4: a: anchor '&y' is not allowed",
        "file.yaml:3:1: a: repeated key; the first is at line 2",
    ]


def test_a_file_that_is_not_there_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        load(tmp_path / "models/a.yaml", tmp_path)
    expected = "models/a.yaml:1:1: cannot be read: no such file or directory"
    assert format_errors(caught.value) == expected


def test_bytes_that_are_not_utf_8_are_refused_at_their_place(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"a: 1\nb: \xc3\xa9\xff\n")
    with pytest.raises(ExceptionGroup) as caught:
        load(tmp_path / "a.yaml", tmp_path)
    assert format_errors(caught.value) == (
        "a.yaml:2:5: byte 0xff is not UTF-8\n  save the file as UTF-8"
    )


@pytest.mark.parametrize(
    ("form", "good"),
    [
        (Text(), "rope"),
        (Text("a digest", "[0-9a-f]{4}"), "12ab"),
        (Integer(1), "1"),
        (Number(), "1"),
        (Number(), "1.5"),
        (Boolean(), "true"),
        (Choice(("a", "b")), "b"),
        (ListOf(Integer()), "[1, 2]"),
        (MapOf(Integer()), "{a: 1}"),
        (Either((Text(), ListOf(Text()))), "[a]"),
        (Either((Text(), ListOf(Text()))), "a"),
    ],
)
def test_what_has_the_form_is_accepted(form: Form, good: str) -> None:
    assert differences(good, form) == []


@pytest.mark.parametrize(
    ("form", "bad", "expected"),
    [
        (Integer(), "true", "at: expected an integer, found boolean true"),
        (Integer(), "1.0", "at: expected an integer, found number 1.0"),
        (Integer(), "'1'", "at: expected an integer, found text '1'"),
        (Integer(2), "1", "at: expected an integer of at least 2, found 1"),
        (
            Integer(),
            "010",
            "at: expected an integer, found '010'\n  write 10, or \"010\" in quotes",
        ),
        (Number(), "true", "at: expected a number, found boolean true"),
        (Number(), "1e-5", "at: expected a number, found '1e-5'\n  write 1.0e-5"),
        (Number(), "", "at: expected a number, found nothing"),
        (Boolean(), "1", "at: expected true or false, found integer 1"),
        (
            Text(),
            "1.5",
            'at: expected text, found number 1.5\n  write it in quotes: "..."',
        ),
        (Text(), "''", "at: expected text, found an empty text"),
        (Text(), '"\\0"', "at: expected text, found '\\x00'"),
        (
            Text("a digest", "[0-9a-f]{4}"),
            "12abc",
            "at: expected a digest, found '12abc'",
        ),
        (
            Choice(("one", "two")),
            "tow",
            "at: expected one of one, two, found 'tow'\n  did you mean 'two'?",
        ),
        (ListOf(Text()), "a", "at: expected a sequence, found text 'a'"),
        (ListOf(Text(), 2), "[a]", "at: expected at least 2 items, found 1"),
        (MapOf(Text()), "[a]", "at: expected a mapping, found a sequence"),
        (MapOf(Text(), min=1), "{}", "at: expected at least 1 entry, found 0"),
        (
            Either((Text(), ListOf(Text()))),
            "1",
            "at: expected text or a sequence, found integer 1",
        ),
    ],
)
def test_what_differs_from_the_form_is_told(
    form: Form, bad: str, expected: str
) -> None:
    (found,) = differences(bad, form)
    assert found.partition(" ")[2] == expected


def test_a_name_of_a_mapping_is_judged_at_its_own_place() -> None:
    form = MapOf(Integer(), Text("a snake_case name", "[a-z_]+"))
    assert differences("{a: 1, B: 2}", form) == [
        "file.yaml:1:12: at.B: expected a snake_case name, found 'B'"
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Section):
    """A section with a key that may be left out."""

    kind: str = ""
    name: str = key(Text(), "what it is called")
    size: int = optional(Integer(), "how big it is", default=3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bare(Section):
    """A section without a key."""

    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Section):
    """A section of which each part can be left out."""

    title: str = key(Text(), "what it is called", empty="")
    sizes: Mapping[str, int] = key(MapOf(Integer(1)), "how big", empty={})
    parts: tuple[Named, ...] = optional(ListOf(Named), "what it has")


def test_unknown_and_missing_keys_of_a_section_are_told() -> None:
    assert differences("{name: a, size: 1}", Named) == []
    assert differences("{size: 1}", Named) == [
        "file.yaml:1:5: at: missing key 'name'\n  name: what it is called"
    ]
    assert differences("{name: a, colour: red}", Named) == [
        "file.yaml:1:15: at.colour: unknown key\n  known keys: name, size"
    ]


def test_a_misspelt_key_is_one_error() -> None:
    assert differences("{nmae: a}", Named) == [
        "file.yaml:1:6: at.nmae: unknown key\n  did you mean 'name'?"
    ]


def test_the_tag_says_which_keys_a_section_has() -> None:
    form = Tagged("kind", "what it is", (("a", Named), ("b", Bare)))
    assert differences("{kind: a, name: x}", form) == []
    assert differences("{kind: b}", form) == []
    assert differences("{kind: b, name: x}", form) == [
        "file.yaml:1:15: at.name: unknown key\n  known keys: kind"
    ]
    assert differences("{kind: c, nmae: x}", form) == [
        "file.yaml:1:12: at.kind: expected one of a, b, found 'c'"
    ]
    assert differences("{name: x}", form) == [
        "file.yaml:1:5: at: missing key 'kind'\n  kind: what it is"
    ]


def test_read_gives_a_typed_value_or_all_differences(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: a\n")
    assert read(path, tmp_path, Named) == Named(name="a", size=3)
    path.write_text("name: 1\nsize: b\n")
    with pytest.raises(ExceptionGroup) as caught:
        read(path, tmp_path, Named)
    assert str(caught.value) == "a.yaml: 2 errors (2 sub-exceptions)"


def test_a_section_with_mistakes_has_what_is_right() -> None:
    text = "title: 1\nsizes: {a: 1, b: 0, C-: 2}\nparts: [{name: x, size: y}]\nz: 1\n"
    found, errors = build(parse(text, "file.yaml"), Whole)
    assert found == Whole(sizes={"a": 1, "C-": 2})
    assert [error.key for error in errors] == [
        "z",
        "title",
        "sizes.b",
        "parts[0].size",
    ]
    # Nothing can stand in for the name.
    found_part, _ = build(parse("size: 1\n", "file.yaml"), Named)
    assert found_part is None


def test_a_section_knows_where_its_parts_stand() -> None:
    text = "title: x\nsizes:\n  a.b: 1\n  a: 2\nparts:\n  - {name: y}\n"
    found, _ = build(parse(text, "file.yaml"), Whole)
    assert found is not None
    assert str(found.at.error("sizes.a.b", "is odd", "try 2")) == (
        "file.yaml:3:8: sizes.a.b: is odd\n  try 2"
    )
    assert str(found.at.key_error("sizes", "a", "wrong")) == (
        "file.yaml:4:3: sizes.a: wrong"
    )
    assert str(found.at.error("parts[0].name", "wrong")) == (
        "file.yaml:6:12: parts[0].name: wrong"
    )
    (part,) = found.parts
    assert str(part.at.position("name")) == "file.yaml:6:12"
    assert (found.at.names("sizes"), found.at.names("title")) == (("a.b", "a"), None)


def test_an_integer_stays_one_where_a_number_is_kept_as_written() -> None:
    assert value("{a: 1}", MapOf(Number())) == {"a": 1.0}
    kept = value("{a: 1, b: 1.5}", MapOf(Number(keeps_integers=True)))
    assert [type(item) for item in kept.values()] == [int, float]


def test_a_file_of_many_unknown_keys_has_a_hundred_errors(tmp_path: Path) -> None:
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Holder(Section):
        held: int = key(Integer(), "what is held")

    lines = [f"key{number}: 1" for number in range(20_000)]
    (tmp_path / "file.yaml").write_text("\n".join(["held: 1", *lines]))
    start = time.monotonic()
    with pytest.raises(ExceptionGroup) as caught:
        read(tmp_path / "file.yaml", tmp_path, Holder)
    assert time.monotonic() - start < 10
    assert len(caught.value.exceptions) == 101
    last = format_errors(caught.value).splitlines()[-1]
    assert last == "file.yaml:102:1: 19,900 more errors from here on"


def test_a_file_that_nobody_wrote_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file.yaml").write_text(f"list: [{'1, ' * 100_000}]")
    with pytest.raises(ExceptionGroup) as caught:
        load(tmp_path / "file.yaml", tmp_path)
    assert format_errors(caught.value) == (
        "file.yaml:1:1: cannot be read: it is too large:"
        " 300008 bytes are more than 262144"
    )
