"""Test that `doit why` shows the values of a specification that changed."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from pathlib import Path

import pytest

from ingot.engine.action_keys import encode_action
from ingot.engine.action_results import (
    PACKED_BYTES,
    TEXTS_BYTES,
    UNPACKED_BYTES,
    unpack_texts,
)
from ingot.engine.actions import Action, InlineText, resolve_action
from tests.checkout import Checkout
from tests.small_actions import COUNT
from tests.test_why import told


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a", tmp_path / "cache")


def spec(value: object) -> Action:
    """An action of a specification."""
    inputs = (("spec.json", InlineText(json.dumps(value))),)
    return Action("bake:x", ("cp", "spec.json", "out"), inputs, ("out",))


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (
            {"model": "m", "weights": {"source": {"seed": 1}}},
            {"model": "m", "weights": {"source": {"seed": 3}}},
            ["weights.source.seed: 1 -> 3"],
        ),
        (
            {"cases": [{"sizes": {"batch": 1, "seq": 16}}]},
            {"cases": [{"sizes": {"batch": 2, "seq": 16}}, {"sizes": {}}]},
            ["cases[0].sizes.batch: 1 -> 2", 'cases[1]: none -> {"sizes": {}}'],
        ),
        (
            {"parameters": [{"name": "a", "shape": [1]}, {"name": "b", "table": None}]},
            {"parameters": [{"name": "b", "table": "t"}]},
            [
                'parameters[a]: {"name": "a", "shape": [1]} -> none',
                'parameters[b].table: null -> "t"',
            ],
        ),
        (
            dict.fromkeys("abcdefg", 1.0),
            dict.fromkeys("abcdefg", "x" * 100),
            [f'{key}: 1.0 -> "{"x" * 59}...' for key in "abcd"]
            + ["3 more values differ"],
        ),
        (
            dict.fromkeys("abcde", 1),
            dict.fromkeys("abcde", 2),
            [f"{key}: 1 -> 2" for key in "abcde"],
        ),
        ([1], {"a": 1}, ["[0]: 1 -> none", "a: none -> 1"]),
        (1, 2, ["all of it: 1 -> 2"]),
    ],
    ids=["key", "list", "named", "many", "one-more", "other-kind", "bare"],
)
def test_why_shows_the_values_of_a_specification_that_differ(
    checkout: Checkout,
    capsys: pytest.CaptureFixture[str],
    old: object,
    new: object,
    lines: list[str],
) -> None:
    checkout.build(spec(old))
    assert told(checkout, capsys, spec(new)) == [
        "bake:x would run:",
        *(f"  input spec.json: {line}" for line in lines),
    ]
    # A checkout without a record finds the same in the store's newest result.
    later = Checkout(checkout.root / "later", checkout.store.root)
    assert told(later, capsys, spec(new))[3:] == [
        f"  input spec.json: {line}" for line in lines
    ]


def test_why_shows_the_digest_of_a_specification_that_is_not_stored(
    checkout: Checkout, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = os.urandom(PACKED_BYTES).hex()
    small, large = spec({"seed": 1}), spec({"noise": noise})

    def digests(old: Action, new: Action) -> list[str]:
        a, b = (
            dict(checkout.executor.resolve(x).inputs)["spec.json"] for x in (old, new)
        )
        return ["bake:x would run:", f"  input spec.json: {a} -> {b}"]

    checkout.build(large)
    assert told(checkout, capsys, small) == digests(large, small)
    checkout.build(small)
    key = encode_action(checkout.executor.resolve(small)).key.hash
    (checkout.store.root / "ac" / key[:2] / key).unlink()
    other = spec({"seed": 2})
    assert told(checkout, capsys, other) == digests(small, other)


def test_a_packed_text_of_the_wrong_size_is_left_out() -> None:
    bomb = zlib.compress(bytes(UNPACKED_BYTES + 1))
    whole = zlib.compress(b"{}")
    told = unpack_texts(
        (
            encode_action(resolve_action(COUNT, (), ())).messages[0],
            b"",
            whole[:-1],
            bomb,
            whole,
        )
    )
    assert told == {hashlib.sha256(b"{}").hexdigest(): "{}"}


def test_texts_are_unpacked_up_to_a_limit() -> None:
    messages = [
        zlib.compress(str(number).encode().ljust(UNPACKED_BYTES))
        for number in range(TEXTS_BYTES // UNPACKED_BYTES + 2)
    ]
    found = unpack_texts(messages * 100)
    assert [int(text) for text in found.values()] == list(range(8))
