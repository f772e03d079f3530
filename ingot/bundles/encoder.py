"""Compute the embeddings of sentences with only a bundle's own files."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Encoded:
    """Sentences, their tokens and their embeddings.

    Shapes: embeddings [sentence, n_embd].
    """

    tokens: tuple[tuple[int, ...], ...]
    embeddings: Array


def tokenize(bundle: Bundle, sentences: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    """Return each sentence's token ids, [CLS] and [SEP] included.

    Raises: IngotError if the bundle has no tokenizer, or if a sentence is too long or
        has a token that the model does not know.
    """
    from ingot.runtime.tokenizer import load_tokenizer

    check_tokenizer(bundle.name, bundle.contract["files"])
    n_vocab = bundle.contract["dims"].get("n_vocab")
    tokenizer = load_tokenizer(bundle.folder / "tokenizer.json", n_vocab)
    tokens = tuple(
        encoded(tokenizer, sentence, f"sentence {number}", n_vocab)
        for number, sentence in enumerate(sentences)
    )
    longest = bundle.limit("seq")
    for number, ids in enumerate(tokens):
        if len(ids) > longest:
            raise IngotError(
                f"sentence {number} is too long; expected {longest} tokens or less, "
                f"found {len(ids)}",
                "split it into several sentences: nothing is cut off silently",
            )
    return tokens


def encode(bundle: Bundle, runner: Runner, sentences: tuple[str, ...]) -> Encoded:
    """Return the sentences' embeddings, in batches as large as the model accepts.

    Raises: IngotError if the bundle is not a sentence encoder, or does not run.
    """
    tokens = tokenize(bundle, sentences)
    return Encoded(tokens, embed(bundle, runner, tokens))


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
