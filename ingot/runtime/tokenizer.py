"""Load a checkpoint's `tokenizer.json` with iree.runtime."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ingot.errors import IngotError
from ingot.runtime.session import first_line


def load_tokenizer(path: Path, n_vocab: int | None = None) -> Any:
    """Return the `iree.runtime.Tokenizer` of a `tokenizer.json`.

    It neither truncates nor pads, regardless of the file's settings. A special token
    may lie beyond the model's rows, because only a text that spells it out contains it:
    Gemma 3 has such a token for images.

    Raises: IngotError if the file is not a tokenizer, or has other ids beyond the
        `n_vocab` rows of the model.
    """
    from iree.runtime import Tokenizer

    try:
        text = path.read_text(encoding="utf-8")
        tokenizer = Tokenizer.from_huggingface_json(text)
    except OSError as error:
        raise IngotError(f"{path}: cannot be read; {error.strerror}") from error
    except (ValueError, RuntimeError, NotImplementedError) as error:
        raise IngotError(
            f"{path}: not a tokenizer that IREE reads; {first_line(error)}",
            "expected the tokenizer.json of Hugging Face tokenizers",
        ) from error
    around = tuple(tokenizer.encode("", add_special_tokens=True))
    highest = max((_highest_id(json.loads(text)), *around))
    if n_vocab is not None and highest >= n_vocab:
        raise IngotError(
            f"{path}: token ids that the model has no row for; expected ids below"
            f" n_vocab = {n_vocab}, found {highest}",
            "take tokenizer and weights from one revision of the model",
        )
    return tokenizer


def _highest_id(tokenizer: Any) -> int:
    """Return the highest id of a token that is not special, or -1."""
    # `vocab_size` counts the tokens; if the ids have gaps, they reach beyond it.
    vocabulary = tokenizer["model"]["vocab"]
    if isinstance(vocabulary, list):  # Unigram: the position in the list is the id
        ids = set(range(len(vocabulary)))
    else:
        ids = set(vocabulary.values())
    added = tokenizer.get("added_tokens") or ()
    ids |= {token["id"] for token in added}
    ids -= {token["id"] for token in added if token.get("special")}
    return max(ids, default=-1)
