"""Judged sentences in, the cases that a bundle proves itself with out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ingot.checks.golden_file import Golden

SCHEMA = "ingot.golden.v1"

# Short enough for an emulator, and of different lengths.
CASES = 4
LONGEST_TOKENS = 32


def golden_cases(
    judged: Golden | None, judge: str, tolerance: dict[str, Any]
) -> dict[str, Any]:
    """Return the content of `golden.json`: sentences, token ids, embeddings.

    `judge` says who made the embeddings: a golden file or the oracle.
    """
    return {
        "schema": SCHEMA,
        "judge": judge,
        "tolerance": {key: tolerance[key] for key in ("max_abs_error", "min_cosine")},
        "cases": [
            {
                "sentence": judged.sentences[index],
                "tokens": judged.tokens[index],
                # 9 significant digits are enough to read back the same float32.
                "embedding": [float(f"{x:.9g}") for x in judged.embedding[index]],
            }
            for index in _spread(judged)
        ]
        if judged
        else [],
    }


def _spread(judged: Golden) -> list[int]:
    """Return a few sentences, evenly spread over the short ones by length."""
    short = [i for i, ids in enumerate(judged.tokens) if len(ids) <= LONGEST_TOKENS]
    short.sort(key=lambda index: (len(judged.tokens[index]), index))
    step = max(len(short) // CASES, 1)
    return short[step - 1 :: step][:CASES]
