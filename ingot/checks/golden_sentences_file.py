"""Read the golden file of a sentence encoder: sentences, tokens and embeddings."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ingot.errors import IngotError

Array: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Golden:
    """Sentences with their token ids and embeddings.

    Shapes: embedding, batched [sentence, n_embd].
    """

    sentences: tuple[str, ...]
    tokens: tuple[tuple[int, ...], ...]  # [CLS] and [SEP] included
    embedding: Array  # each sentence alone
    batched: Array  # in groups of `batch`, padded to the longest of the group
    batch: int


def read_golden(path: Path) -> Golden:
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
        return Golden(
            sentences=tuple(json.loads(arrays["sentences"].tobytes())),
            tokens=tuple(tuple(flat[start:stop]) for start, stop in bounds),
            embedding=arrays["embedding"],
            batched=arrays["embedding_batched"],
            batch=json.loads(arrays["metadata"].tobytes())["batch"],
        )
