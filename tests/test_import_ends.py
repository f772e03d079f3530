"""Test the end tokens and the tokenizer that `doit import` takes from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ingot.errors import IngotError
from tests.import_cases import TINY, bring, checkout, write_as_gguf, write_hf
from tests.project import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without models."""
    return checkout(tmp_path)


@pytest.mark.parametrize(
    ("config", "generation", "found"),
    [
        (1, None, (1,)),
        (None, None, ()),
        ([1, 106], [1, 106], (1, 106)),
        (100, [107, 100], (100, 107)),
        # What says that there is none, and what no row can say.
        (-1, 300, ()),
    ],
)
def test_the_tokens_that_end_a_text_are_those_of_the_checkpoint(
    config: Any, generation: Any, found: tuple[int, ...], root: Path
) -> None:
    source = write_hf(root.parent / "tiny", {**TINY["llama"], "eos_token_id": config})
    if generation is not None:
        text = json.dumps({"eos_token_id": generation})
        (source / "generation_config.json").write_text(text)
    assert bring(root, source)[1].generation.end_tokens == found


def test_the_tokens_that_end_a_text_are_those_of_the_gguf_file(root: Path) -> None:
    ends = {"tokenizer.ggml.eos_token_id": 7, "tokenizer.ggml.eot_token_id": 9}
    path = write_as_gguf(root.parent / "tiny.gguf", TINY["llama"], more=ends)
    imported, found = bring(root, path)
    assert found.generation.end_tokens == (7, 9)
    places = ", ".join(f"tiny.gguf: {key}" for key in ends)
    assert "  end_tokens       7, 9 " in str(imported)
    assert places in str(imported)


def test_a_tokenizer_of_more_tokens_than_rows_is_told(root: Path) -> None:
    tiny = write_hf(root.parent / "tiny", TINY["llama"])
    value = json.loads((ROOT / "models/tokenizers/bytes.json").read_text())
    value["model"]["vocab"]["hello"] = 300
    (tiny / "tokenizer.json").write_text(json.dumps(value))
    with pytest.raises(IngotError) as caught:
        bring(root, tiny)
    assert str(caught.value) == (
        f"{tiny}/tokenizer.json: token ids that the model has no row for; expected ids"
        " below n_vocab = 300, found 300\n"
        "  take tokenizer and weights from one revision of the model\n"
        "found 1 error; nothing was written"
    )


def test_an_end_of_text_that_is_no_token_is_told(root: Path) -> None:
    tiny = write_hf(root.parent / "tiny", TINY["llama"])
    (tiny / "generation_config.json").write_text('{"eos_token_id": [1, "</s>"]}')
    with pytest.raises(IngotError) as caught:
        bring(root, tiny)
    assert str(caught.value) == (
        "generation_config.json: eos_token_id: expected a token's id, or several, found"
        " [1, '</s>']\nfound 1 error; nothing was written"
    )
