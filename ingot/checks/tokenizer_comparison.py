"""Compare a tokenizer with its source, and with the model that it is for.

Everything that is wrong is reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ingot.checks.compare import Place, Row
from ingot.checks.tokenizer_oracle import Oracle
from ingot.checks.tokenizer_strings import strings
from ingot.errors import counted
from ingot.runtime.tokenizer import REPLACEMENT, Tokenizer
from ingot.weights.gguf_vocabulary import SPACE

# How a template writes the tokens that begin and end a turn.
_MARKS = re.compile(r"<\|[^|<>\s]{1,40}\|>|<(?:start|end)_of_turn>")
_PLAIN = (
    "the capital of France is Paris",
    "one two three four five six seven",
    "a b c d",
)
# Tokens of a text that come one by one; each costs as much as decoding many at once.
_STREAMED = 1000
_SHOWN = 40  # characters of a string in a message


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared, and what is wrong."""

    rows: tuple[Row, ...]
    problems: tuple[str, ...]


def compare_tokenizer(
    tokenizer: Tokenizer,
    oracle: Oracle | None,
    writes_text: bool,
    n_vocab: int | None = None,
) -> Comparison:
    """Compare ids, whole texts and streamed texts on the 2,000 strings.

    Without an oracle, only the tokenizer's own texts are compared with each other.
    `writes_text` says that the model generates text, which needs every space.
    """
    # A special token may lie beyond the model's rows; the source does not have it.
    with_row = [x for x in tokenizer.special() if n_vocab is None or x < n_vocab]
    names = sorted(filter(None, map(tokenizer.token, with_row)))
    cases = strings(tuple(names[:64]))
    ids = [tokenizer.encode(text) for text in cases]
    alone = [tokenizer.encode(text, around=False) for text in cases]
    judged: list[tuple[str, Callable[[int], tuple[object, object]]]] = []
    if oracle is not None:
        encode, decode = oracle.encode, oracle.decode
        judged.append(("ids", lambda i: (encode(cases[i]), ids[i])))
        if decode is not None:
            judged.append(
                (
                    "text",
                    lambda i: (decode(list(alone[i])), _whole(tokenizer, alone[i])),
                )
            )
    if writes_text:
        first = [x[:_STREAMED] for x in ids]
        judged.append(("streamed text", lambda i: _streamed(tokenizer, first[i])))
        # Often in the middle of a character; of every fourth string, to save time.
        cut = [() if i % 4 else x[2:-1] for i, x in enumerate(first)]
        judged.append(("broken text", lambda i: _streamed(tokenizer, cut[i])))
    rows, problems = [], []
    for value, pair in judged:
        pairs = map(pair, range(len(cases)))
        wrong = [(i, a, b) for i, (a, b) in enumerate(pairs) if a != b]
        rows.append(_row(value, len(cases), len(wrong)))
        if wrong:
            place, expected, found = wrong[0]
            problems.append(
                f"{value} of {len(wrong)} of {len(cases)} strings; the first,"
                f" {_short(cases[place])}: {_difference(expected, found)}"
            )
    if writes_text:
        problems += _lost_spaces(tokenizer)
    return Comparison(tuple(rows), tuple(problems))


def _whole(tokenizer: Tokenizer, ids: tuple[int, ...]) -> str:
    """Return the text with special tokens, of which sources have different ideas."""
    return tokenizer.decode(ids, special=True)


def _streamed(tokenizer: Tokenizer, ids: tuple[int, ...]) -> tuple[str, str]:
    """Return the whole text and the streamed one.

    How many U+FFFD stand for broken bytes is open, and which characters of a run of
    bytes are broken if one is: so of such texts, only what both have is compared.
    """
    stream = tokenizer.stream()
    streamed = "".join(map(stream.feed, ids)) + stream.finish()
    whole = tokenizer.decode(ids)
    if REPLACEMENT not in whole:
        return whole, streamed
    parts = [part for part in whole.split(REPLACEMENT) if part]
    place = 0
    for part in parts:
        found = streamed.find(part, place)
        if found < 0:
            return whole, streamed
        place = found + len(part)
    return "", ""


def _lost_spaces(tokenizer: Tokenizer) -> Iterator[str]:
    for text in _PLAIN:
        found = tokenizer.decode(tokenizer.encode(text)).strip()
        if found != text:
            yield f"decoding changes a plain text: expected {text!r}, found {found!r}"
            return


def _row(value: str, count: int, wrong: int) -> Row:
    return Row(
        place=Place("tokens", f"{count} strings", "tokenizer", (), value),
        max_abs_error=float(wrong),
        worst=(0,),
        expected=0.0,
        got=float(wrong),
        cosine=None,
        tolerance=0.0,
        tolerance_source="a tokenizer is exact",
        passed=not wrong,
    )


def _short(text: str) -> str:
    if len(text) <= _SHOWN:
        return repr(text)
    return f"{text[:_SHOWN]!r}... ({len(text)} characters)"


def _difference(expected: object, found: object) -> str:
    """Return the first place at which two sequences differ."""
    assert isinstance(expected, Sequence)
    assert isinstance(found, Sequence)
    pairs = zip(expected, found, strict=False)
    same = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    place = min(len(expected), len(found)) if same is None else same
    a, b = expected[place : place + 8], found[place : place + 8]
    if isinstance(expected, str):
        return f"expected {a!r} at character {place}, found {b!r}"
    return f"expected {list(a)} at token {place}, found {list(b)}"


def vocabulary_problems(
    tokenizer: Tokenizer, tokens: Mapping[int, str], origin: str
) -> Iterator[str]:
    """Yield where a tokenizer has other tokens than its checkpoint says elsewhere."""
    # Converters of GGUF write runs of spaces as they are in a text.
    wrong = [
        (number, token)
        for number, token in tokens.items()
        if (tokenizer.token(number) or "").replace(SPACE, " ")
        != token.replace(SPACE, " ")
    ]
    if wrong:
        number, token = wrong[0]
        yield (
            f"it is of another model: {counted(len(wrong), 'id')} of {len(tokens)} have"
            f" another token in {origin}; the first, {number}: expected {token!r},"
            f" found {tokenizer.token(number)!r}"
        )


def special_problems(
    tokenizer: Tokenizer, ids: Mapping[str, int], prompt: str
) -> Iterator[str]:
    """Yield special tokens that the manifest or a templated prompt has alone.

    `ids` are those that the manifest names, by their key; `prompt` is what the chat
    template writes.
    """
    for key, number in ids.items():
        if tokenizer.token(number) is None:
            yield f"generation.{key}: no token has the id {number}"
    for mark in dict.fromkeys(_MARKS.findall(prompt)):
        if tokenizer.number(mark) is None:
            yield f"generation.chat_template: it writes {mark!r}, which is no token"
