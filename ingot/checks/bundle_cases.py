"""Choose the golden sentences or prompts with which a bundle can verify itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ingot.checks.golden_files import GoldenLogits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ingot.checks.golden_files import GoldenSentences
    from ingot.model.tolerance import Tolerance

SCHEMA = "ingot.golden.v1"

# Cases are short enough for an emulator, and differ in length.
CASES = 4
LONGEST_TOKENS = 32
# The same for a decoder, which may be thirty times as large.
LONGEST_PROMPT = 16
# A case has only some logits, because a wrong model is wrong in all of them.
IDS = 64


def golden_cases(
    judged: GoldenSentences | GoldenLogits | None,
    judge: str,
    tolerances: Mapping[str, Tolerance],
) -> dict[str, Any]:
    """Return the content of `golden.json`.

    Sentences have token ids and embeddings; prompts have the logits after the last
    token at some ids, with the range of all logits and the best token.

    `judge` names their origin: a golden file, or the oracle, which uses the weights as
    they are stored and therefore gets a stricter tolerance.
    """
    level = "golden" if judge == "golden file" else "model"
    cases: dict[str, Any] = {"cases": []}
    if isinstance(judged, GoldenLogits):
        tokens = tolerances["tokens" if level == "golden" else level]
        cases = {"token_tolerance": _limits(tokens), **_prompts(judged)}
    elif judged:
        cases = _sentences(judged)
    limits = _limits(tolerances[level])
    return {"schema": SCHEMA, "judge": judge, "tolerance": limits, **cases}


def _limits(tolerance: Tolerance) -> dict[str, Any]:
    return {
        "max_abs_error": tolerance.max_abs_error,
        "min_cosine": tolerance.min_cosine,
        "of_range": tolerance.of_range,
    }


def _sentences(judged: GoldenSentences) -> dict[str, Any]:
    chosen = _spread(judged.tokens, LONGEST_TOKENS)
    return {
        "cases": [
            {
                "sentence": judged.sentences[index],
                "tokens": judged.tokens[index],
                "embedding": _numbers(judged.embedding[index]),
            }
            for index in chosen
        ]
    }


def _prompts(judged: GoldenLogits) -> dict[str, Any]:
    step = max(len(judged.ids) // IDS, 1)
    some = slice(0, IDS * step, step)
    return {
        "ids": judged.ids[some].tolist(),
        "cases": [
            {
                "tokens": judged.prompts[index],
                "logits": _numbers(judged.expected[index].logits[some]),
                "range": _number(judged.expected[index].range),
                "best_token": judged.expected[index].token,
            }
            for index in _spread(judged.prompts, LONGEST_PROMPT)
        ],
    }


def _numbers(values: Iterable[float]) -> list[float]:
    return [_number(value) for value in values]


def _number(value: float) -> float:
    # 9 significant digits are enough to read back the same float32.
    return float(f"{value:.9g}")


def _spread(tokens: Sequence[Sequence[int]], longest: int) -> list[int]:
    """Return a few of the short cases, evenly spread by length."""
    short = [i for i, ids in enumerate(tokens) if len(ids) <= longest]
    short.sort(key=lambda index: (len(tokens[index]), index))
    step = max(len(short) // CASES, 1)
    return short[step - 1 :: step][:CASES]
