"""Compute the embeddings of sentences with only a bundle's own files."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from ingot.bundles.reader import Bundle
from ingot.bundles.target_runner import module_of
from ingot.bundles.vocabulary import check_tokenizer, encoded
from ingot.checks.golden_sentences import pad
from ingot.checks.levels import embedding_entry
from ingot.errors import IngotError
from ingot.model.runner import Runner
from ingot.runtime.invoke import Call, call

Array: TypeAlias = Any


class Long(Enum):
    """What happens to a sentence with more tokens than the model has positions."""

    REFUSE = "refuse"
    CUT = "cut"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Encoded:
    """Sentences, their tokens and their embeddings.

    Shapes: embeddings [sentence, n_embd].
    """

    tokens: tuple[tuple[int, ...], ...]  # all of them, whatever the model was given
    windows: tuple[tuple[tuple[int, ...], ...], ...]  # what it was given, by sentence
    embeddings: Array


def tokenize(bundle: Bundle, sentences: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return each sentence's token ids, [CLS] and [SEP] included.

    Raises: IngotError if the bundle has no tokenizer, or if a sentence has a token that
        the model does not know.
    """
    return _tokens(bundle, sentences)[0]


def _tokens(
    bundle: Bundle, sentences: tuple[str, ...]
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """Return the tokens of sentences, and those that are put around each."""
    from ingot.runtime.tokenizer import load_tokenizer

    check_tokenizer(bundle.name, bundle.contract["files"])
    n_vocab = bundle.contract["dims"].get("n_vocab")
    tokenizer = load_tokenizer(bundle.folder / "tokenizer.json", n_vocab)
    tokens = tuple(
        encoded(tokenizer, sentence, f"sentence {number}", n_vocab)
        for number, sentence in enumerate(sentences)
    )
    return tokens, encoded(tokenizer, "", "an empty sentence", n_vocab)


def windows(
    tokens: tuple[int, ...], around: tuple[int, ...], longest: int, long: Long
) -> tuple[tuple[int, ...], ...]:
    """Return the parts of a sentence that the model gets; each has `around` around it.

    CUT keeps the first part only, as sentence-transformers does.

    Raises: IngotError if the sentence is too long, and is to be refused.
    """
    if len(tokens) <= longest:
        return (tokens,)
    if long is Long.REFUSE or len(around) >= longest:
        raise IngotError(
            f"expected {longest} tokens or less, found {len(tokens)}",
            "long=cut keeps its beginning; long=split takes the mean of its parts",
        )
    n_before = next(
        count
        for count in range(len(around) + 1)
        if tokens[:count] == around[:count]
        and tokens[len(tokens) - len(around) + count :] == around[count:]
    )
    before, after = around[:n_before], around[n_before:]
    own = tokens[n_before : len(tokens) - len(after)]
    size = longest - len(around)
    parts = [own[place : place + size] for place in range(0, len(own), size)]
    if long is Long.CUT:
        del parts[1:]
    return tuple((*before, *part, *after) for part in parts)


def encode(
    bundle: Bundle,
    runner: Runner,
    sentences: tuple[str, ...],
    long: Long = Long.REFUSE,
) -> Encoded:
    """Return the sentences' embeddings, in batches as large as the model accepts.

    The embedding of a sentence that is split is the mean of those of its parts, each
    weighted by its number of tokens; it has length 1 if the model's embeddings have.

    Raises: IngotError if the bundle is not a sentence encoder, or does not run, or if
        a sentence is too long.
    """
    tokens, around = _tokens(bundle, sentences)
    longest, parts = bundle.limit("seq"), []
    for number, ids in enumerate(tokens):
        try:
            parts.append(windows(ids, around, longest, long))
        except IngotError as error:
            raise IngotError(
                f"sentence {number} is too long; {error.message}", error.hint
            ) from error
    made = embed(bundle, runner, tuple(part for sentence in parts for part in sentence))
    return Encoded(tokens, tuple(parts), _joined(bundle, made, parts, len(around)))


def _joined(
    bundle: Bundle,
    made: Array,
    parts: list[tuple[tuple[int, ...], ...]],
    n_around: int,
) -> Array:
    """Return one embedding for each sentence.

    Shapes: made [window, n_embd] -> [sentence, n_embd].
    Raises: IngotError if the bundle does not say whether they have length 1.
    """
    import numpy as np

    pooling, place, found = bundle.pooling, 0, []
    for sentence in parts:
        rows = made[place : place + len(sentence)]
        place += len(sentence)
        if len(sentence) == 1:
            found.append(rows[0])
            continue
        if pooling is None:
            raise IngotError(
                f"{bundle.name}: the bundle states no pooling, so that nothing can be"
                " split",
                "build it again",
            )
        weights = np.array([len(part) - n_around for part in sentence], np.float64)
        mean = weights @ rows.astype(np.float64) / weights.sum()
        mean /= np.linalg.norm(mean) if pooling.normalized else 1.0
        found.append(mean.astype(np.float32))
    return np.stack(found)


def embed(bundle: Bundle, runner: Runner, tokens: tuple[tuple[int, ...], ...]) -> Array:
    """Return the embeddings of token ids.

    Shapes: [sentence, n_embd].
    Raises: IngotError if the bundle computes no embeddings, or does not run.
    """
    import numpy as np

    entry = embedding_entry(bundle.entry_points)
    if entry is None:
        raise IngotError(
            f"{bundle.name}: no entry point computes an embedding of tokens"
        )
    module = module_of(bundle)
    place = [port.role for port in entry.outputs].index("embedding")
    size = bundle.limit("batch")
    made = [
        call(
            runner,
            module,
            Call(entry.name, pad(entry, tokens[start : start + size]), (), place + 1),
        )[place]
        for start in range(0, len(tokens), size)
    ]
    return np.concatenate(made)
