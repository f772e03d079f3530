from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingot.cli.bundle_commands import report, run
from ingot.errors import IngotError
from tests.tiny_bundle import pack_whole


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_whole(tmp_path_factory.mktemp("packed"))


def test_sentences_run_through_a_built_bundle(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    run(tmp_path, "tiny", "here", "hello | hello|The cat sits outside.")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tiny@here"
    assert lines[1] == '[0] "hello", 3 tokens'
    # 101 + 7592 + 102, by 1000, by 1.5; and 3 tokens by -0.25.
    assert lines[2].split()[:2] == ["+11.69250", "-0.75000"]
    assert lines[7] == "cosine"
    assert lines[9].split() == ["[0]", "1.0000", "1.0000", "1.0000"]


def test_one_sentence_has_no_matrix(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    run(tmp_path, "tiny", "here", "hello")
    assert "cosine" not in capsys.readouterr().out


def test_a_sentence_that_is_too_long_is_an_error(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    with pytest.raises(IngotError) as caught:
        run(tmp_path, "tiny", "here", "short|" + "word " * 40)
    assert str(caught.value) == (
        "sentence 1 is too long; expected 32 tokens or less, found 42\n"
        "  split it into several sentences: nothing is cut off silently"
    )


def test_a_sentence_that_is_no_text_is_an_error(packed: Path, tmp_path: Path) -> None:
    shutil.copytree(packed / "bundle", tmp_path / "build/tiny/here/bundle")
    with pytest.raises(IngotError, match=r"^sentence 1 is not UTF-8 text$"):
        run(tmp_path, "tiny", "here", "short|a\udcff")


def test_what_is_not_built_says_how_to_build_it(tmp_path: Path) -> None:
    with pytest.raises(IngotError) as caught:
        run(tmp_path, "tiny", "here", "hello")
    assert str(caught.value) == (
        "tiny@here is not built\n  run: doit build model=tiny target=here"
    )


def test_a_report_shortens_long_sentences() -> None:
    import numpy as np

    from ingot.bundles.encoder import Encoded

    encoded = Encoded(((1, 2),), np.array([[3.0, 4.0]], np.float32))
    text = report("tiny@here", ("x" * 60,), encoded)
    assert f'[0] "{"x" * 45}...", 2 tokens' in text
    assert "(2 dims, norm 5.000000)" in text
