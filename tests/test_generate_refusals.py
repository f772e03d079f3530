"""Test what `doit generate` rejects before it writes a token."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingot.bundles import generator
from ingot.bundles.contract import unseal
from ingot.bundles.generator import Outside, Request, generate
from ingot.bundles.reader import read_bundle
from ingot.errors import IngotError
from ingot.model.runner import Runner
from tests.tiny_decoder import N_CTX, lay_out, sealed


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lay_out(tmp_path_factory.mktemp("decoder") / "bundle")


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """A bundle's folder that a test may change."""
    shutil.copytree(made, tmp_path / "bundle")
    return tmp_path / "bundle"


def changed(folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Change what bundle.json says."""
    content = unseal((folder / "bundle.json").read_text())
    change(content)
    return sealed(folder, content)


def refused(folder: Path, prompt: str = "x") -> str:
    """What the error of generating says; nothing may be written."""
    pieces: list[str] = []
    with pytest.raises(IngotError) as caught:
        generate(
            read_bundle(folder),
            Runner("local-sync"),
            Request(prompt),
            Outside(pieces.append, lambda: False),
        )
    assert pieces == []
    return str(caught.value)


def test_a_prompt_that_is_too_long_is_an_error_before_anything_runs(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: Any) -> None:
        pytest.fail("the module was loaded")

    monkeypatch.setattr(generator, "open_session", opened)
    assert refused(made, "p" * N_CTX) == (
        "the prompt is too long; expected at most n_ctx = 64 tokens, found 65\n"
        "  shorten it: nothing is cut off silently"
    )


def test_a_prompt_without_tokens_is_an_error(bundle: Path) -> None:
    value = json.loads((bundle / "tokenizer.json").read_text())
    value["post_processor"] = None
    (bundle / "tokenizer.json").write_text(json.dumps(value))
    changed(bundle, lambda _: None)
    assert refused(bundle, "") == (
        "the prompt has no tokens; expected at least 1, found 0"
    )


def test_a_prompt_that_is_no_text_is_an_error(made: Path) -> None:
    # What Python makes of a byte on the command line that is no UTF-8.
    assert refused(made, "a\udcffb") == "the prompt is not UTF-8 text"


def test_a_bundle_without_tokenizer_is_an_error(bundle: Path) -> None:
    (bundle / "tokenizer.json").unlink()
    changed(bundle, lambda _: None)
    assert refused(bundle) == (
        "tiny@here: the bundle has no tokenizer\n"
        "  add 'tokenizer' to the manifest, with the path of its tokenizer.json"
    )


def test_a_tokenizer_of_another_vocabulary_is_an_error(bundle: Path) -> None:
    changed(bundle, lambda content: content["dims"].update(n_vocab=255))
    assert refused(bundle) == (
        f"{bundle}/tokenizer.json: token ids that the model has no row for; "
        "expected ids below n_vocab = 255, found 256\n"
        "  take tokenizer and weights from one revision of the model"
    )


def test_a_special_token_without_a_row_is_refused_in_a_prompt(bundle: Path) -> None:
    changed(bundle, lambda content: content["dims"].update(n_vocab=257))
    assert refused(bundle, "a<eos>") == (
        "the prompt has a token that the model has no row for; expected ids below"
        " n_vocab = 257, found 257\n"
        "  leave out '<eos>'"
    )


def test_a_model_that_is_no_decoder_is_an_error(bundle: Path) -> None:
    def rename(content: dict[str, Any]) -> None:
        content["entry_points"][1]["name"] = "encode"

    assert refused(changed(bundle, rename)) == (
        "tiny@here: not a decoder; expected the entry points prefill and decode, "
        "found prefill, encode"
    )


def test_a_cache_that_no_output_updates_is_an_error(bundle: Path) -> None:
    def forget(content: dict[str, Any]) -> None:
        content["entry_points"][1]["in_place"] = []

    assert refused(changed(bundle, forget)) == (
        "tiny@here: decode: no output updates the cache 'cache'"
    )


def test_an_input_that_no_decoder_has_is_an_error(bundle: Path) -> None:
    def mask(content: dict[str, Any]) -> None:
        content["entry_points"][0]["inputs"][1]["role"] = "mask"

    assert refused(changed(bundle, mask)) == (
        "tiny@here: prefill: input 'start' has a role that no decoder has; "
        "expected block_table, cache, last_index, start, tokens, found mask"
    )


def test_caches_that_differ_between_the_entry_points_are_an_error(bundle: Path) -> None:
    def widen(content: dict[str, Any]) -> None:
        content["entry_points"][1]["inputs"][-1]["shape"][-1] = 3

    assert refused(changed(bundle, widen)) == (
        "tiny@here: decode: expected the caches of prefill, cache "
        "f32[1, batch, ctx, 2], found cache f32[1, batch, ctx, 3]"
    )
