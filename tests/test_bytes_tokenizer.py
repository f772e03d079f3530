"""Test that the tokenizer of the synthetic models reproduces any text."""

from __future__ import annotations

import json
import runpy
from functools import cache
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from ingot.runtime.tokenizer import load_tokenizer
from tests.tiny_decoder import BOS, BYTES, EOS

MADE_BY = BYTES.with_name("make_bytes.py")
# Any Unicode text but the two names, which stand for special tokens, and U+FFFD.
TEXT = st.text(st.characters(exclude_characters="\ufffd", codec="utf-8")).filter(
    lambda text: "<bos>" not in text and "<eos>" not in text
)


@cache
def tokenizer() -> Any:
    return load_tokenizer(BYTES, 258)


def test_the_file_is_what_its_script_makes() -> None:
    made = runpy.run_path(str(MADE_BY))["tokenizer"]().to_str()
    assert json.loads(made) == json.loads(BYTES.read_text(encoding="utf-8"))


@example("Grüße, 日本 \U0001f600\r\n\t\0x\u2028 \u0301")
@example("  two  spaces  ")
@given(TEXT)
def test_every_text_becomes_its_bytes_and_comes_back(text: str) -> None:
    ids = tokenizer().encode(text, add_special_tokens=True)
    assert ids == [BOS, *text.encode()]
    assert tokenizer().decode(ids, skip_special_tokens=True) == text


@given(TEXT)
def test_hugging_face_makes_the_same_ids(text: str) -> None:
    from tokenizers import Tokenizer

    other = Tokenizer.from_file(str(BYTES))
    assert other.encode(text).ids == tokenizer().encode(text, add_special_tokens=True)


@given(TEXT)
def test_a_stream_gives_each_character_whole_and_at_once(text: str) -> None:
    stream = tokenizer().decode_stream(skip_special_tokens=True)
    assert stream.feed_one(BOS) == ""
    for character in text:
        *unfinished, last = [stream.feed_one(byte) for byte in character.encode()]
        assert unfinished == [""] * len(unfinished)
        assert last == character
    assert stream.finalize() == ""


def test_the_replacement_character_comes_back_as_three() -> None:
    # IREE 3.13 takes it for a byte that it could not decode. Models write it rarely.
    ids = tokenizer().encode("a\ufffdb")
    assert ids == list("a\ufffdb".encode())
    assert tokenizer().decode(ids) == "a\ufffd\ufffd\ufffdb"


@given(st.lists(st.integers(0, 255)))
def test_a_stream_of_any_bytes_is_what_unicode_says(ids: list[int]) -> None:
    stream = tokenizer().decode_stream(skip_special_tokens=True)
    text = "".join(map(stream.feed_one, ids)) + stream.finalize()
    # How many U+FFFD stand for broken bytes is open.
    broken = bytes(ids).decode(errors="replace")
    assert text.replace("\ufffd", "") == broken.replace("\ufffd", "")


def test_the_special_tokens_have_their_ids() -> None:
    assert tokenizer().token_to_id("<bos>") == BOS
    assert tokenizer().token_to_id("<eos>") == EOS
    assert tokenizer().id_to_token(258) is None


def test_gaps_between_ids_stand_for_no_token(tmp_path: Any) -> None:
    value = json.loads(BYTES.read_text(encoding="utf-8"))
    value["added_tokens"][1]["id"] = 300
    (tmp_path / "tokenizer.json").write_text(json.dumps(value))
    found = load_tokenizer(tmp_path / "tokenizer.json", 301)
    known = [i for i in range(301) if found.id_to_token(i) is not None]
    assert known == [*range(257), 300]
