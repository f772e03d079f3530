"""The words that a command line may set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ingot.errors import IngotError, did_you_mean

VARIABLES = {
    "model": "model names, separated by commas, or 'all'",
    "target": "target names, separated by commas, or 'all'",
    "executor": "where actions run: local, dask://HOST:PORT or grpc://HOST:PORT",
    "input": "a sentence for `doit run`; several: separated by |",
    "bundle": "a bundle's folder or tar for `doit verify`",
    "prompt": "what the text of `doit generate` follows",
    "tokens": "how many `doit generate` writes at most (128), `doit ablate` reads (32)",
    "temperature": "0: the most likely token; above, drawn, the flatter the higher",
    "top_k": "draw among that many of the most likely tokens",
    "top_p": "draw among the most likely tokens with that share of the probability",
    "seed": "whole number that makes a draw, or random tokens, repeatable",
    "source": "a checkpoint's folder or GGUF file for `doit import`",
    "licence": "SPDX id of what `doit import` reads, where it does not say",
    "modes": "what `doit ablate` rounds, with commas; all modes unasked",
    "weights": "what `doit ablate` rounds matrices to; unasked what is stored, or i8",
    "level": "what `doit inspect` shows: graph, linalg, tensor or program",
    "filter": "names that `doit inspect` shows, a glob: 'attn_*'",
    "workers": "how many workers `doit cluster` starts (2)",
    "port": "where the scheduler of `doit cluster` listens (8786)",
    "n_ctx": "positions that an imported model is to have; 2048 at most unasked",
    "limit": "the size that `doit gc` leaves of the store: 20GB, 500MiB",
}
"""Words that a command line may set; anything else is refused."""


# Those that say which tasks a command is about, and where they run.
TASKS = ("model", "target", "executor")


def refuse_repeated(words: Iterable[str]) -> None:
    """Refuse a variable that a command line sets twice: doit takes the last.

    Raises: IngotError with both values.
    """
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name in VARIABLES and name in found:
            hint = f"for both: {name}={found[name]},{value}"
            raise IngotError(
                f"{name}= is set twice, to '{found[name]}' and to '{value}'",
                hint if name in ("model", "target", "modes") else "",
            )
        if "=" in word:
            found[name] = value


def refuse_unknown(variables: dict[str, str]) -> None:
    """Refuse a variable that no command reads.

    Raises: IngotError with the nearest known one.
    """
    for name in variables:
        if name not in VARIABLES:
            # Swapped letters mean the word that has them: 'modle' is not 'modes'.
            swapped = [word for word in VARIABLES if sorted(word) == sorted(name)]
            raise IngotError(
                f"{name}={variables[name]}: no variable named '{name}'",
                did_you_mean(name, swapped or list(VARIABLES), "variables"),
            )


def refuse_words(
    variables: Mapping[str, str], words: tuple[str, ...], command: str
) -> None:
    """Refuse a variable that this command does not read.

    Raises: IngotError with the nearest that it reads.
    """
    for name, value in variables.items():
        if name not in words:
            raise IngotError(
                f"{name}={value}: {command} reads no variable named '{name}'",
                did_you_mean(name, words, "variables"),
            )


def whole(variables: Mapping[str, str], name: str, least: int) -> int | None:
    """Return the whole number that a variable is set to; None where it is not set.

    Raises: IngotError where it is no such number.
    """
    if name not in variables:
        return None
    text = variables[name]
    # `int` reads more than the digits that people mean.
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise IngotError(f"{name}={text}: expected a whole number, {least} or more")
    return int(text)
