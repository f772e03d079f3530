"""Check the variables of a command line, the `name=value` words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ingot.errors import IngotError, did_you_mean

# Every variable that some command reads.
VARIABLES = {
    "model": "model names, separated by commas, or 'all'",
    "target": "target names, separated by commas, or 'all'",
    "executor": "where actions run: local, dask://HOST:PORT or grpc://HOST:PORT",
    "input": "a sentence for `doit run`, as it is",
    "other": "a second sentence for `doit run`, to compare with the first",
    "inputs": "a file with a sentence for `doit run` on each line; -: standard input",
    "long": "sentences that are too long: refuse, cut or split",
    "to": "what `doit release`, `pull` and `tar` write; the .npy file of `doit run`",
    "from": "the release that `doit pull` and `doit release promote` read",
    "version": "the version that `doit release` publishes: 1.4.0",
    "channel": "the tag that `doit release` moves to the new version (dev)",
    "key": "the key that signs a release, or that must have signed it",
    "policy": "a file with what a release must be, for `doit release` and `verify`",
    "builder": "the URI of who builds, for a release's provenance",
    "keep": "how many versions `doit release prune` leaves (5)",
    "bundle": "a bundle's folder or tar, or a release (the bundle that was built)",
    "run": "no: `doit verify` hashes the files, and runs nothing of the bundle",
    "prompt": "the text that `doit generate` continues",
    "ids": "token ids that `doit generate` continues: 1,2,3",
    "system": "what a chat model is told before the first prompt",
    "template": "none: `doit generate` continues a chat model's prompt as it is",
    "tokens": "how many `doit generate` writes at most (128), `doit ablate` reads (32)",
    "temperature": "0 takes the most likely token; a higher value draws more evenly",
    "top_k": "draw from this many of the most likely tokens",
    "top_p": "draw from the most likely tokens with this share of the probability",
    "seed": "integer that makes sampling, random tokens or `doit audit` repeatable",
    "source": "a checkpoint's folder or GGUF file, or hf:OWNER/NAME@REVISION",
    "licence": "SPDX id for `doit import`, if the checkpoint does not state it",
    "modes": "what `doit ablate` rounds, separated by commas (all modes)",
    "weights": "what `doit ablate` rounds matrices to (the stored type, or i8)",
    "level": "what `doit inspect` shows: graph, linalg, tensor or program",
    "filter": "glob for the names that `doit inspect` shows: 'attn_*'",
    "workers": "how many workers `doit cluster` starts (2)",
    "port": "where the scheduler of `doit cluster` listens (8786)",
    "ignore": "keys of an imported checkpoint that change nothing, with commas",
    "n_ctx": "context length of an imported model (its own, at most 2048)",
    "stored": "type of an imported model's matrices: i8_block32 (the checkpoint's own)",
    "sample": "how many cached actions `doit audit` runs again (10), or 'all'",
    "limit": "the size to which `doit gc` shrinks the store: 20GB, 500MiB",
}


def check_set_once(words: Iterable[str]) -> None:
    """Reject a variable that a command line sets twice: doit takes the last value.

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


def check_known(variables: Mapping[str, str]) -> None:
    """Reject a variable that no command reads.

    Raises: IngotError with the nearest known one.
    """
    for name in variables:
        if name not in VARIABLES:
            # Swapped letters: 'modle' means 'model', not 'modes'.
            swapped = [word for word in VARIABLES if sorted(word) == sorted(name)]
            raise IngotError(
                f"{name}={variables[name]}: no variable named '{name}'",
                did_you_mean(name, swapped or list(VARIABLES), "variables"),
            )


def check_used(
    variables: Mapping[str, str], used: tuple[str, ...], command: str
) -> None:
    """Reject a variable that this command does not read.

    Raises: IngotError with the nearest one that it reads.
    """
    for name, value in variables.items():
        if name not in used:
            raise IngotError(
                f"{name}={value}: {command} reads no variable named '{name}'",
                did_you_mean(name, used, "variables"),
            )


def integer(variables: Mapping[str, str], name: str, least: int) -> int | None:
    """Return the integer that a variable is set to; None if it is not set.

    Raises: IngotError for other text, or a smaller number.
    """
    if name not in variables:
        return None
    text = variables[name]
    # `int` accepts more than the digits that people mean.
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise IngotError(f"{name}={text}: expected an integer, {least} or more")
    return int(text)


def number(
    variables: Mapping[str, str], name: str, range_: str, fits: Callable[[float], bool]
) -> float | None:
    """Return the number that a variable is set to; None if it is not set.

    Raises: IngotError for other text, or a number that does not fit the range.
    """
    if name not in variables:
        return None
    try:
        value = float(variables[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not fits(value):
        raise IngotError(f"{name}={variables[name]}: expected a number, {range_}")
    return value


def one_of_each(
    command: str, models: tuple[str, ...], targets: tuple[str, ...]
) -> tuple[str, str]:
    """Return the only model and the only target.

    Raises: IngotError if there are several, or none.
    """
    for kind, names in (("model", models), ("target", targets)):
        if len(names) != 1:
            found = ", ".join(names) or "none"
            raise IngotError(f"{command} needs one {kind}, found {found}")
    return models[0], targets[0]
