"""Test `doit run input=...`: sentences become embeddings, whatever they look like."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.bundles.encoder import Encoded, Long, windows
from ingot.cli import bundle_commands
from ingot.cli.bundle_commands import Wanted, report, run
from ingot.errors import IngotError
from tests.tiny_bundle import pack_whole

LONG = "word " * 40  # 42 tokens; the tiny model has 32 positions


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_whole(tmp_path_factory.mktemp("packed"))


@pytest.fixture
def root(packed: Path, tmp_path: Path) -> Path:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    return tmp_path


def as_json(
    root: Path, capsys: pytest.CaptureFixture[str], *sentences: str, long: Long
) -> Any:
    run(root, "tiny", "here", Wanted(sentences, long, json=True))
    return json.loads(capsys.readouterr().out)


def test_sentences_run_through_a_built_bundle(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = ("hello", "hello", "The cat sits outside.")
    run(root, "tiny", "here", Wanted(sentences))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny@here"
    assert lines[1] == '[0] "hello", 3 tokens'
    # 101 + 7592 + 102, by 1000, by 1.5; and 3 tokens by -0.25.
    assert lines[2].split()[:2] == ["+11.69250", "-0.75000"]
    assert lines[7] == "cosine"
    assert lines[9].split() == ["[0]", "1.0000", "1.0000", "1.0000"]


def test_one_sentence_has_no_matrix(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(root, "tiny", "here", Wanted(("hello",)))
    assert "cosine" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "sentence", ["", " ", "a|b", "|", "\n", "=", "\u2028", "\U0001f600 ½ ² Ⅷ"]
)
def test_any_text_is_one_sentence(
    root: Path, capsys: pytest.CaptureFixture[str], sentence: str
) -> None:
    found = as_json(root, capsys, sentence, long=Long.REFUSE)
    (only,) = found["sentences"]
    assert only["sentence"] == sentence
    assert only["windows"] == 1
    assert only["embedding"][1] == only["tokens"] * -0.25


def test_a_sentence_that_is_too_long_is_an_error(root: Path) -> None:
    with pytest.raises(IngotError) as caught:
        run(root, "tiny", "here", Wanted(("short", LONG)))
    assert str(caught.value) == (
        "sentence 1 is too long; expected 32 tokens or less, found 42\n"
        "  long=cut keeps its beginning; long=split takes the mean of its parts"
    )


def test_a_long_sentence_is_cut_only_when_asked(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = as_json(root, capsys, LONG, "word " * 30, long=Long.CUT)["sentences"]
    assert (cut[0]["tokens"], cut[0]["tokens_used"]) == (42, 32)
    assert cut[0]["embedding"] == cut[1]["embedding"]


def test_a_long_sentence_is_the_mean_of_its_parts(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = ("word " * 30, "word " * 10)
    split = as_json(root, capsys, LONG, *parts, long=Long.SPLIT)["sentences"]
    assert split[0]["windows"] == 2
    first, last = (np.array(item["embedding"]) for item in split[1:])
    expected = (30 * first + 10 * last) / 40
    np.testing.assert_allclose(split[0]["embedding"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("long", "expected"),
    [
        (Long.CUT, ((1, 10, 11, 2),)),
        (Long.SPLIT, ((1, 10, 11, 2), (1, 12, 13, 2), (1, 14, 2))),
    ],
)
def test_every_part_has_the_special_tokens_around_it(
    long: Long, expected: tuple[tuple[int, ...], ...]
) -> None:
    tokens = (1, 10, 11, 12, 13, 14, 2)
    assert windows(tokens, (1, 2), 4, long) == expected
    assert windows((10, 11, 12), (), 2, Long.SPLIT) == ((10, 11), (12,))
    with pytest.raises(IngotError, match="expected 2 tokens or less, found 7"):
        windows(tokens, (1, 2), 2, long)


def test_a_sentence_that_is_no_text_is_an_error(root: Path) -> None:
    with pytest.raises(IngotError, match=r"^sentence 1 is not UTF-8 text$"):
        run(root, "tiny", "here", Wanted(("short", "a\udcff")))


def test_embeddings_are_written_as_an_array(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "found.npy"
    run(root, "tiny", "here", Wanted(("hello", "hello world"), to=path))
    found = np.load(path)
    assert (found.dtype, found.shape) == (np.float32, (2, 2))
    np.testing.assert_allclose(found[0], [11.6925, -0.75], rtol=1e-6)
    assert [item.name for item in tmp_path.iterdir() if item.name[0] == "."] == []


def test_sentences_come_from_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes("one|two\r\n\nthree\u2028four\n".encode())
    expected = ("one|two", "", "three\u2028four")
    assert bundle_commands._sentences({"inputs": str(path)}) == expected
    stream = io.TextIOWrapper(io.BytesIO(path.read_bytes()))
    monkeypatch.setattr("sys.stdin", stream)
    assert bundle_commands._sentences({"inputs": "-"}) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read; No such file or directory"),
        (b"", "expected a sentence on each line, found none"),
        (b"one\nt\xffo\n", "line 2 is not UTF-8 text"),
    ],
)
def test_a_file_without_sentences_is_an_error(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "lines.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(IngotError) as caught:
        bundle_commands._sentences({"inputs": str(path)})
    assert caught.value.message == f"inputs={path}: {message}"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "no sentence is given"),
        ({"other": "b"}, "no sentence is given"),
        ({"input": "a", "inputs": "f"}, "input= and inputs= are two ways to say"),
    ],
)
def test_sentences_are_given_in_one_way(
    variables: dict[str, str], message: str
) -> None:
    with pytest.raises(IngotError, match=message):
        bundle_commands._sentences(variables)


def test_other_words_for_long_and_to_are_errors(tmp_path: Path) -> None:
    with pytest.raises(IngotError, match="long=trim: expected refuse, cut, split"):
        bundle_commands._long({"long": "trim"})
    for name in ("found.txt", "absent/found.npy"):
        with pytest.raises(IngotError, match="expected a file that ends in"):
            bundle_commands._to({"to": str(tmp_path / name)})


def test_what_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(IngotError) as caught:
        run(tmp_path, "tiny", "here", Wanted(("hello",)))
    assert str(caught.value) == (
        "tiny@here is not built\n  run: doit build model=tiny target=here"
    )


def test_a_report_shortens_long_sentences() -> None:
    encoded = Encoded(((1, 2),), (((1, 2),),), np.array([[3.0, 4.0]], np.float32))
    text = report("tiny@here", ("x" * 60,), encoded)
    assert f'[0] "{"x" * 45}...", 2 tokens' in text
    assert "(2 dims, norm 5.000000)" in text
