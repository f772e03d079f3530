"""Test that the tokenizer of the synthetic models reproduces any text."""

from __future__ import annotations

import json
import runpy
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ingot.errors import IngotError
from ingot.runtime.tokenizer import Tokenizer, load_tokenizer
from tests.tiny_decoder import BOS, BYTES, EOS

MADE_BY = BYTES.with_name("make_bytes.py")
# Any Unicode text but the two names, which stand for special tokens, and U+FFFD.
TEXT = st.text(st.characters(exclude_characters="\ufffd", codec="utf-8")).filter(
    lambda text: "<bos>" not in text and "<eos>" not in text
)


@cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(BYTES, 258)


def test_the_file_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(MADE_BY))["tokenizer"]().to_str()
    assert json.loads(made) == json.loads(BYTES.read_text(encoding="utf-8"))


@example("Grüße, 日本 \U0001f600\r\n\t\0x\u2028 \u0301")
@example("  two  spaces  ")
@given(TEXT)
def test_every_text_becomes_its_bytes_and_comes_back(text: str) -> None:
    ids = tokenizer().encode(text)
    assert ids == (BOS, *text.encode())
    assert tokenizer().decode(ids) == text


@given(TEXT)
def test_a_stream_gives_each_character_whole_and_at_once(text: str) -> None:
    stream = tokenizer().stream()
    assert stream.feed(BOS) == ""
    for character in text:
        *unfinished, last = [stream.feed(byte) for byte in character.encode()]
        assert unfinished == [""] * len(unfinished)
        assert last == character
    assert stream.finish() == ""


def test_the_replacement_character_comes_back() -> None:
    ids = tokenizer().encode("a\ufffdb", around=False)
    assert ids == tuple("a\ufffdb".encode())
    assert tokenizer().decode(ids) == "a\ufffdb"


@given(st.lists(st.integers(0, 255)))
def test_a_stream_of_any_bytes_is_what_unicode_says(ids: list[int]) -> None:
    stream = tokenizer().stream()
    text = "".join(map(stream.feed, ids)) + stream.finish()
    # How many U+FFFD stand for broken bytes is open.
    broken = bytes(ids).decode(errors="replace")
    assert text.replace("\ufffd", "") == broken.replace("\ufffd", "")


def test_the_special_tokens_have_their_ids() -> None:
    assert tokenizer().number("<bos>") == BOS
    assert tokenizer().number("<eos>") == EOS
    assert tokenizer().token(258) is None


def test_an_id_that_the_library_does_not_give_is_an_error(tmp_path: Path) -> None:
    value = json.loads(BYTES.read_text(encoding="utf-8"))
    value["added_tokens"][1]["id"] = 300
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(value))
    with pytest.raises(IngotError) as caught:
        load_tokenizer(path, 301)
    assert caught.value.message == (
        f"{path}: added_tokens: '<eos>' has the id 300; expected 257, which the"
        " vocabulary gives it"
    )
