"""Test that a tokenizer is compared with its source, and that mistakes are found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.checks import tokenizer_comparison
from ingot.checks.tokenizer_comparison import compare_tokenizer, special_problems
from ingot.checks.tokenizer_oracle import (
    Unjudged,
    byte_characters,
    gguf_oracle,
    json_oracle,
    merged,
)
from ingot.checks.tokenizer_strings import COUNT, SCRIPTS, strings
from ingot.engine import process
from ingot.errors import IngotError
from ingot.runtime.tokenizer import Tokenizer, load_tokenizer
from ingot.weights.gguf_vocabulary import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    GgufVocabulary,
    read_vocabulary,
    tokenizer_json,
)
from tests.project import ROOT

Change = Callable[[dict[str, Any]], None]

WORDS = ("th", "the", "er", "in", "an", "and", "re", "on", "12", "ing", "aa", "aaaa")


def byte_level() -> GgufVocabulary:
    """A small vocabulary of the kind of GPT-2."""
    characters = list(byte_characters().values())
    merges = ["t h", "th e", "e r", "i n", "a n", "an d", "r e", "o n", "1 2", "in g"]
    merges += ["a a", "aa aa", "Ġ t", "Ġ the", "Ġ a", "Ġ Ġ"]
    tokens = ["<|end|>", "<|start|>", *characters]
    tokens += [item.replace(" ", "") for item in merges]
    return vocabulary(
        model="gpt2",
        pre="smollm",
        tokens=tuple(tokens),
        types=(CONTROL, CONTROL, *[NORMAL] * (len(tokens) - 2)),
        merges=tuple(merges),
    )


def pieces(model: str = "llama") -> GgufVocabulary:
    """A small vocabulary of the kind of SentencePiece, with bytes."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256]
    plain = ["▁", *"abcdefghijklmnopqrstuvwxyz0123456789.,<>x'", *WORDS]
    plain += ["▁a", "▁t", "▁th", "▁the", "▁▁", "▁an", "▁and", "ёж", "ё", "ж"]
    plain = list(dict.fromkeys(plain))
    return vocabulary(
        model=model,
        pre="default",
        tokens=(*tokens, *plain, "<|mark|>"),
        types=(*types, *[NORMAL] * len(plain), USER_DEFINED),
        scores=(*[0.0] * 259, *(-float(i) for i in range(len(plain))), 0.0),
        unknown=0,
        before=(1,) if model == "llama" else (),
        after=() if model == "llama" else (2,),
        add_space_prefix=True,
    )


def vocabulary(**given: Any) -> GgufVocabulary:
    usual: dict[str, Any] = {
        "label": "x.gguf",
        "scores": (),
        "merges": (),
        "charsmap": b"",
        "unknown": None,
        "before": (),
        "after": (),
        "add_space_prefix": False,
        "remove_extra_whitespaces": False,
    }
    return GgufVocabulary(**{**usual, **given})


def nothing(_: dict[str, Any]) -> None:
    """Make no mistake."""


def made(source: GgufVocabulary, folder: Path, change: Change = nothing) -> Tokenizer:
    """The tokenizer that is written for a vocabulary, with a mistake in it."""
    content = tokenizer_json(source)
    change(content)
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content))
    return load_tokenizer(path)


@pytest.fixture(autouse=True)
def fewer_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare every twelfth string, to save time."""

    def fewer(special: tuple[str, ...] = ()) -> tuple[str, ...]:
        return strings(special)[::12]

    monkeypatch.setattr(tokenizer_comparison, "strings", fewer)


def test_there_are_2000_strings_of_all_kinds_and_they_never_change() -> None:
    found = strings(("<|end|>",))
    assert len(set(found)) == len(found) == COUNT == 2000
    assert {0, 1, 5000} <= {len(text) for text in found}
    together = "".join(found)
    assert len(SCRIPTS) == 12
    for first, last in SCRIPTS.values():
        assert any(chr(first) <= x <= chr(last) for x in together)
    assert "<|end|>" in found
    assert found == strings(("<|end|>",))


@pytest.mark.parametrize("source", [byte_level(), pieces(), pieces("t5")])
def test_a_vocabulary_that_is_written_right_is_equal(
    source: GgufVocabulary, tmp_path: Path
) -> None:
    tokenizer = made(source, tmp_path)
    compared = compare_tokenizer(tokenizer, gguf_oracle(source), writes_text=True)
    assert compared.problems == ()
    assert all(row.passed for row in compared.rows)
    assert {row.place.value for row in compared.rows} >= {"ids", "streamed text"}


def prefix(content: dict[str, Any]) -> None:
    content["pre_tokenizer"]["pretokenizers"][-1]["add_prefix_space"] = True


def exchanged_merges(content: dict[str, Any]) -> None:
    merges = content["model"]["merges"]
    merges[0], merges[2] = merges[2], merges[0]
    # Of the word "ther": "th e r" or "t h er".
    merges.insert(1, merges.pop(2))


def digits(content: dict[str, Any]) -> None:
    del content["pre_tokenizer"]["pretokenizers"][0]


def no_prefix(content: dict[str, Any]) -> None:
    del content["normalizer"]["normalizers"][0]


def no_beginning(content: dict[str, Any]) -> None:
    content["post_processor"] = None


def lost_spaces(content: dict[str, Any]) -> None:
    content["decoder"]["decoders"][0]["content"] = ""


def kept_space(content: dict[str, Any]) -> None:
    content["decoder"]["decoders"].pop()


def no_bytes(content: dict[str, Any]) -> None:
    content["model"]["byte_fallback"] = False


def another_order(content: dict[str, Any]) -> None:
    content["model"]["merges"].reverse()


@pytest.mark.parametrize(
    ("source", "mistake", "found"),
    [
        (byte_level(), prefix, "ids of"),
        (byte_level(), exchanged_merges, "ids of"),
        (byte_level(), digits, "ids of"),
        (byte_level(), another_order, "ids of"),
        (pieces(), no_prefix, "ids of"),
        (pieces(), no_beginning, "ids of"),
        (pieces(), no_bytes, "ids of"),
        (pieces(), another_order, "ids of"),
        (pieces(), lost_spaces, "text of"),
        (pieces(), kept_space, "text of"),
    ],
)
def test_a_planted_mistake_is_found(
    source: GgufVocabulary, mistake: Change, found: str, tmp_path: Path
) -> None:
    tokenizer = made(source, tmp_path, mistake)
    compared = compare_tokenizer(tokenizer, gguf_oracle(source), writes_text=False)
    assert any(text.startswith(found) for text in compared.problems)


def test_lost_spaces_are_found_without_a_judge(tmp_path: Path) -> None:
    tokenizer = made(pieces(), tmp_path, lost_spaces)
    found = compare_tokenizer(tokenizer, None, writes_text=True).problems
    assert found[-1] == (
        "decoding changes a plain text: expected 'the capital of France is Paris',"
        " found 'thecapitalofFranceisParis'"
    )


def test_merges_take_the_best_pair_first_and_of_equal_ones_the_left() -> None:
    ranks = {("a", "b"): 1, ("b", "c"): 0, ("a", "a"): 2}
    assert merged(list("abc"), lambda a, b: ranks.get((a, b))) == ["a", "bc"]
    assert merged(list("aaa"), lambda a, b: ranks.get((a, b))) == ["aa", "a"]


def test_a_tokenizer_json_is_judged_too() -> None:
    path = ROOT / "models/tokenizers/bytes.json"
    oracle = json_oracle(json.loads(path.read_text(encoding="utf-8")))
    compared = compare_tokenizer(load_tokenizer(path), oracle, writes_text=False)
    assert compared.problems == ()


def test_a_part_that_the_judge_does_not_know_is_said() -> None:
    content = tokenizer_json(byte_level())
    content["normalizer"] = {"type": "Nmt"}
    with pytest.raises(Unjudged, match="the normalizer Nmt"):
        json_oracle(content)


def test_special_tokens_that_are_missing_are_named(tmp_path: Path) -> None:
    tokenizer = made(byte_level(), tmp_path)
    ids = {"bos": 1, "end_tokens[0]": 5000}
    prompt = "<|start|>user\nhi<|im_end|>\n<start_of_turn><|im_end|>"
    assert list(special_problems(tokenizer, ids, prompt)) == [
        "generation.end_tokens[0]: no token has the id 5000",
        "generation.chat_template: it writes '<|im_end|>', which is no token",
        "generation.chat_template: it writes '<start_of_turn>', which is no token",
    ]


def write_gguf(path: Path, source: GgufVocabulary, **more: Any) -> Path:
    """Write a GGUF file with this vocabulary, and nothing else."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model(source.model)
    writer.add_tokenizer_pre(more.get("pre", source.pre))
    writer.add_token_list(list(source.tokens)[: more.get("count")])
    writer.add_token_types(list(source.types))
    if source.merges:
        writer.add_token_merges(list(source.merges))
    if source.scores:
        writer.add_token_scores(list(source.scores))
    if source.unknown is not None:
        writer.add_unk_token_id(source.unknown)
    writer.add_bos_token_id(more.get("bos", 1))
    writer.add_eos_token_id(2)
    writer.add_tensor("token_embd.weight", np.zeros((2, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("source", [byte_level(), pieces(), pieces("t5")])
def test_a_gguf_file_has_the_vocabulary_that_was_written(
    source: GgufVocabulary, tmp_path: Path
) -> None:
    assert read_vocabulary(write_gguf(tmp_path / "x.gguf", source), "x.gguf") == source


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"pre": "gpt2"}, "tokenizer.ggml.pre: no pre-tokenizer named 'gpt2'\n"),
        ({"pre": "gpt2"}, "did you mean 'gpt-2'?"),
        ({"count": 9}, "token_type: expected 9 items, one for each token, found 274"),
    ],
)
def test_a_vocabulary_that_is_wrong_is_an_error(
    more: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = write_gguf(tmp_path / "x.gguf", byte_level(), **more)
    with pytest.raises(IngotError) as caught:
        read_vocabulary(path, "x.gguf")
    assert says in str(caught.value)


def run_check(folder: Path, **more: Any) -> tuple[int, str]:
    """Run the program of the check on a tokenizer and a GGUF file in the folder."""
    specification = {
        "task": "check x",
        "tokenizer": "tokenizer.json",
        "gguf": "x.gguf",
        "gguf_label": "x.gguf",
        "n_vocab": 274,
        "writes_text": False,
        "special": {},
        "bos": None,
        "chat_template": "",
        "cpu_s": 300,
        "memory_bytes": 4 << 30,
        **more,
    }
    (folder / "spec.json").write_text(json.dumps(specification))
    ended = process.run(
        (sys.executable, "-m", "ingot.programs.check_tokenizer.main", "spec.json"),
        folder,
        {"PYTHONPATH": str(ROOT)},
    )
    return ended.exit_code, ended.output.decode()


def test_everything_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", byte_level())

    def another(content: dict[str, Any]) -> None:
        ids = content["model"]["vocab"]
        ids["A"], ids["B"] = ids["B"], ids["A"]

    made(byte_level(), tmp_path, another)
    code, output = run_check(
        tmp_path,
        n_vocab=300,
        special={"end_tokens[0]": 299},
        chat_template="{% for %}",
    )
    assert code == 1
    limits, *lines = output.splitlines()
    assert limits == "limits of the tokenizer: 300 s and 4 GiB"
    assert lines[0] == "check x: tokenizer.json is wrong"
    text = "\n".join(lines)
    assert "of another model: 2 ids of 274 have another token in x.gguf" in text
    assert "vocabulary and embedding of x.gguf disagree: 274 tokens, 300 rows" in text
    assert "generation.chat_template: line 1: " in text
    assert "generation.end_tokens[0]: no token has the id 299" in text
    assert "differs from its source in the ids of" in text


def test_the_limits_hold(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", byte_level())
    made(byte_level(), tmp_path)
    code, output = run_check(tmp_path, memory_bytes=1 << 26)
    assert code != 0
    assert output.startswith("limits of the tokenizer: 300 s and 0 GiB")
