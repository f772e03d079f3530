"""Read golden files: the outputs of an independent implementation.

One kind holds sentences and their embeddings, the other a decoder's prompts, its logits
and a greedy sequence.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ingot.errors import IngotError

Array: TypeAlias = Any

NEEDED = (
    "metadata tokens offsets ids logits argmax range"
    " greedy greedy_prompt steps step_logits step_range"
)


def golden_kind(path: Path) -> str:
    """Return the kind of a golden file: "embeddings" or "logits".

    Raises: IngotError for a file that does not state its kind.
    """
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        if "metadata" not in arrays:
            raise IngotError(f"{path}: no array 'metadata'")
        metadata = json.loads(arrays["metadata"].tobytes())
    return str(metadata.get("kind", "embeddings"))


@dataclass(frozen=True, slots=True)
class GoldenSentences:
    """Sentences with their token ids and embeddings.

    Shapes: embedding, batched [sentence, n_embd].
    """

    sentences: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]  # [CLS] and [SEP] included
    embedding: Array  # each sentence alone
    batched: Array  # in groups of `batch`, padded to the longest of the group
    batch: int


def read_sentences(path: Path) -> GoldenSentences:
    """Return the content of a sentence encoder's golden file.

    Raises: IngotError for a file that lacks an array.
    """
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        needed = "metadata sentences tokens offsets embedding embedding_batched"
        for name in needed.split():
            if name not in arrays:
                raise IngotError(f"{path}: no array '{name}'", f"needed: {needed}")
        flat, offsets = arrays["tokens"].tolist(), arrays["offsets"].tolist()
        bounds = itertools.pairwise(offsets)
        return GoldenSentences(
            sentences=tuple(json.loads(arrays["sentences"].tobytes())),
            tokens=tuple(tuple(flat[start:stop]) for start, stop in bounds),
            embedding=arrays["embedding"],
            batched=arrays["embedding_batched"],
            batch=json.loads(arrays["metadata"].tobytes())["batch"],
        )


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected logits after a token: at the file's ids, with range and best token.

    Shapes: logits [id].
    """

    logits: Array
    range: float  # largest less smallest logit, of the whole vocabulary
    token: int


@dataclass(frozen=True, slots=True)
class GoldenLogits:
    """Prompts with their expected logits, and a greedy sequence of tokens.

    Shapes: ids [id].
    """

    ids: Array  # the tokens whose logits are known
    prompts: tuple[tuple[int, ...], ...]
    expected: tuple[Expected, ...]  # of each prompt
    greedy: tuple[int, ...]  # a prompt, then what follows
    prompt_length: int  # of `greedy`
    # By step: step i produces greedy[prompt_length + i].
    steps: tuple[tuple[int, Expected], ...]
    window: int | None  # how far the attention of some layers reaches back


def read_logits(path: Path) -> GoldenLogits:
    """Return the content of a decoder's golden file.

    Raises: IngotError for a file that lacks an array.
    """
    import numpy as np

    with np.load(path, allow_pickle=False) as arrays:
        for name in NEEDED.split():
            if name not in arrays:
                raise IngotError(f"{path}: no array '{name}'", f"needed: {NEEDED}")
        found = {name: arrays[name] for name in NEEDED.split()}
    flat = found["tokens"].tolist()
    bounds = itertools.pairwise(found["offsets"].tolist())
    greedy, length = tuple(found["greedy"].tolist()), int(found["greedy_prompt"])
    steps = found["steps"].tolist()
    best = [greedy[length + step] for step in steps]
    after = _expected(found["step_logits"], found["step_range"], best)
    return GoldenLogits(
        ids=found["ids"],
        prompts=tuple(tuple(flat[start:stop]) for start, stop in bounds),
        expected=_expected(found["logits"], found["range"], found["argmax"].tolist()),
        greedy=greedy,
        prompt_length=length,
        steps=tuple(zip(steps, after, strict=True)),
        window=json.loads(found["metadata"].tobytes())["window"],
    )


def _expected(logits: Array, ranges: Array, tokens: list[int]) -> tuple[Expected, ...]:
    rows = zip(logits, ranges.tolist(), tokens, strict=True)
    return tuple(Expected(*row) for row in rows)
