"""Compare a tokenizer with its source, within limits of time and memory.

The comparison reports everything that is wrong at once. A tokenizer that needs more
time or memory ends the program, which says before what the limits are.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.codec import from_json, to_json
from ingot.errors import IngotError
from ingot.programs.check_tokenizer.spec import ROWS, CheckTokenizerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ingot.checks.tokenizer_oracle import Oracle
    from ingot.runtime.tokenizer import Tokenizer
    from ingot.weights.gguf_vocabulary import GgufVocabulary


def main() -> None:
    """Check the tokenizer of the specification in `argv[1]`."""
    specification = from_json(CheckTokenizerSpec, Path(sys.argv[1]).read_bytes())
    limits = f"{specification.cpu_s} s and {specification.memory_bytes >> 30} GiB"
    print(f"limits of the tokenizer: {limits}", flush=True)
    for what, most in (
        (resource.RLIMIT_CPU, specification.cpu_s),
        (resource.RLIMIT_AS, specification.memory_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (value, value))
    try:
        check(specification)
    except IngotError as error:
        sys.exit(f"{specification.task}: {error}")


def check(specification: CheckTokenizerSpec) -> None:
    """Write the rows of the comparison.

    Raises: IngotError with everything that is wrong.
    """
    from ingot.checks.tokenizer_comparison import compare_tokenizer
    from ingot.runtime.tokenizer import load_tokenizer

    path = Path(specification.tokenizer)
    tokenizer = load_tokenizer(path, specification.n_vocab)
    source = _gguf(specification)
    oracle, unjudged = _oracle(path, source)
    compared = compare_tokenizer(
        tokenizer, oracle, specification.writes_text, specification.n_vocab
    )
    problems = [
        *_fit(specification, tokenizer, source),
        *(f"it differs from its source in the {x}" for x in compared.problems),
    ]
    if problems:
        text = "".join(f"\n  {problem}" for problem in problems)
        raise IngotError(f"{path.name} is wrong{text}")
    Path(ROWS).write_text(to_json(compared.rows, indent=True) + "\n", encoding="utf-8")
    values = ", ".join(row.place.value for row in compared.rows)
    print(f"{path.name}: 2000 strings, equal in {values or 'nothing'}")
    if unjudged:
        print(f"no independent judge of its ids: {unjudged}")


def _gguf(specification: CheckTokenizerSpec) -> GgufVocabulary | None:
    from ingot.weights.gguf_vocabulary import read_vocabulary

    if specification.gguf is None:
        return None
    return read_vocabulary(Path(specification.gguf), specification.gguf_label)


def _oracle(path: Path, source: GgufVocabulary | None) -> tuple[Oracle | None, str]:
    """Return the judge, or why there is none."""
    from ingot.checks.tokenizer_oracle import Unjudged, gguf_oracle, json_oracle

    try:
        if source is not None:
            return gguf_oracle(source), ""
        return json_oracle(json.loads(path.read_bytes())), ""
    except Unjudged as error:
        return None, str(error)


def _fit(
    specification: CheckTokenizerSpec,
    tokenizer: Tokenizer,
    source: GgufVocabulary | None,
) -> Iterator[str]:
    """Yield what does not fit between tokenizer, source, model and template."""
    from ingot.checks.tokenizer_comparison import special_problems, vocabulary_problems
    from ingot.runtime.chat_template import Message, render

    if source is not None:
        tokens = dict(enumerate(source.tokens))
        yield from vocabulary_problems(tokenizer, tokens, source.label)
        rows = specification.n_vocab
        if rows is not None and len(tokens) != rows:
            yield (
                f"vocabulary and embedding of {source.label} disagree: {len(tokens)}"
                f" tokens, {rows} rows"
            )
    prompt = ""
    if specification.chat_template:
        ids = {"bos_token": specification.bos}
        ids["eos_token"] = specification.special.get("end_tokens[0]")
        names = {
            name: tokenizer.token(number) or ""
            for name, number in ids.items()
            if number is not None
        }
        messages = [Message(role="user", content="Hello")]
        try:
            prompt = render(specification.chat_template, messages, names)
        except IngotError as error:
            yield f"generation.{error.message}"
    yield from special_problems(tokenizer, specification.special, prompt)


if __name__ == "__main__":
    main()
