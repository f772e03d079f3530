"""Turn prompts into token ids with a bundle's tokenizer, and find the end of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from ingot.bundles.reader import Bundle
from ingot.bundles.token_ids import ENDS
from ingot.errors import IngotError
from ingot.runtime.tokenizer import Tokenizer, load_tokenizer

Array: TypeAlias = Any

# What `bundle.json` states if the manifest states nothing.
UNSTATED = {"bos": None, "add_bos": False, "end_tokens": (), "stop": ()}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A tokenizer and its ids.

    Shapes: known [token], i64, rising: the ids that have a token.
    """

    tokenizer: Tokenizer
    known: Array
    ends: frozenset[int]
    stop: tuple[str, ...]  # texts that end a text
    before: tuple[int, ...]  # what every text begins with
    names: dict[str, str]  # the tokens that a chat template may write


def read_vocabulary(bundle: Bundle) -> Vocabulary:
    """Return the bundle's vocabulary.

    Raises: IngotError if it has no tokenizer, or one for another model.
    """
    import numpy as np

    check_tokenizer(bundle.name, bundle.contract["files"])
    n_vocab = bundle.contract["dims"]["n_vocab"]
    tokenizer = load_tokenizer(bundle.folder / "tokenizer.json", n_vocab)
    # Ids may have gaps, and a model may have more rows than the tokenizer has tokens.
    known = [i for i in range(n_vocab) if tokenizer.token(i) is not None]
    named = [tokenizer.number(name) for name in ENDS]
    # A name counts only if the tokenizer treats it as special: for Gemma 3 and Qwen 3,
    # `</s>` is ordinary text.
    special = [token for token in named if token in tokenizer.special()]
    older = {"end_tokens": bundle.contract.get("end_tokens", ())}
    generation = {**UNSTATED, **(bundle.contract.get("generation") or older)}
    bos, ends = generation["bos"], tuple(generation["end_tokens"])
    roles = {"bos_token": bos, "eos_token": ends[0] if ends else None}
    return Vocabulary(
        tokenizer,
        np.array(known, np.int64),
        frozenset((*special, *ends)),
        tuple(generation["stop"]),
        (bos,) if generation["add_bos"] and bos is not None else (),
        {
            role: tokenizer.token(number) or ""
            for role, number in roles.items()
            if number is not None
        },
    )


def check_tokenizer(name: str, files: Any) -> None:
    """Reject a bundle with these files if it has no tokenizer.

    Raises: IngotError that names the manifest's key.
    """
    if "tokenizer.json" not in files:
        raise IngotError(
            f"{name}: the bundle has no tokenizer",
            "add 'tokenizer' to the manifest, with the path of its tokenizer.json",
        )


def encoded(
    tokenizer: Tokenizer,
    text: str,
    what: str,
    n_vocab: int | None,
    around: bool = True,
) -> tuple[int, ...]:
    """Return a text's token ids, `around` with those that belong around a text.

    Raises: IngotError if the bytes from a command line are not text, or if the text
        contains a token beyond the `n_vocab` rows of the model.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise IngotError(f"{what} is not UTF-8 text") from error
    ids = tokenizer.encode(text, around=around)
    highest = max(ids, default=-1)
    if n_vocab is not None and highest >= n_vocab:
        raise IngotError(
            f"{what} has a token that the model has no row for; expected ids below"
            f" n_vocab = {n_vocab}, found {highest}",
            f"leave out '{tokenizer.token(highest)}'",
        )
    return ids


def prompt_tokens(
    bundle: Bundle, vocabulary: Vocabulary, prompt: str, *, around: bool = True
) -> list[int]:
    """Return the prompt's token ids.

    `around` adds those that belong before a text; a chat template writes them itself.

    Raises: IngotError if there are none, more than the model's context holds, or one
        that the model does not know.
    """
    n_vocab = bundle.contract["dims"]["n_vocab"]
    ids = list(encoded(vocabulary.tokenizer, prompt, "the prompt", n_vocab, around))
    before = list(vocabulary.before)
    if around and ids[: len(before)] != before:
        ids = before + ids
    return checked_ids(bundle, vocabulary, ids)


def checked_ids(bundle: Bundle, vocabulary: Vocabulary, ids: list[int]) -> list[int]:
    """Return the ids of a prompt.

    Raises: IngotError if there are none, more than the model's context holds, or one
        that the model has no row for.
    """
    n_ctx, n_vocab = bundle.limit("ctx"), bundle.contract["dims"]["n_vocab"]
    if len(ids) > n_ctx:
        raise IngotError(
            f"the prompt is too long; expected at most n_ctx = {n_ctx} tokens, "
            f"found {len(ids)}",
            "shorten it: nothing is cut off silently",
        )
    if not ids:
        raise IngotError("the prompt has no tokens; expected at least 1, found 0")
    if max(ids) >= n_vocab:
        raise IngotError(
            f"the prompt has the id {max(ids)}; expected ids below n_vocab = {n_vocab}"
        )
    return ids
