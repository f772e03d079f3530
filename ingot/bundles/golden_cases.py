"""A golden file in, the cases that a bundle proves itself with out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ingot.checks.golden_file import read_golden

SCHEMA = "ingot.golden.v1"

# Short enough for an emulator, and of different lengths.
CASES = 4
LONGEST_TOKENS = 32


def golden_cases(path: Path, tolerance: dict[str, Any]) -> dict[str, Any]:
    """Return the content of `golden.json`: sentences, token ids, embeddings."""
    golden = read_golden(path)
    short = [i for i, ids in enumerate(golden.tokens) if len(ids) <= LONGEST_TOKENS]
    short.sort(key=lambda index: (len(golden.tokens[index]), index))
    step = max(len(short) // CASES, 1)
    return {
        "schema": SCHEMA,
        "tolerance": tolerance,
        "cases": [
            {
                "sentence": golden.sentences[index],
                "tokens": golden.tokens[index],
                # 9 significant digits are enough to read back the same float32.
                "embedding": [float(f"{x:.9g}") for x in golden.embedding[index]],
            }
            for index in short[step - 1 :: step][:CASES]
        ],
    }
