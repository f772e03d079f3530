"""Run `doit verify` and `doit run input=...`: use a built bundle."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, TypeAlias

from ingot.bundles.encoder import Encoded, encode
from ingot.bundles.reader import Bundle, read_bundle
from ingot.bundles.target_runner import runner_for
from ingot.cli.commands import FAILED, Call
from ingot.errors import IngotError, counted
from ingot.project.catalogue import read, requested_models
from ingot.project.selection import check_runnable, select

Array: TypeAlias = Any

SEPARATOR = "|"
SHOWN_DIMS = 6
SHOWN_CHARACTERS = 48

REBUILD = "`doit build` restores a bundle of this checkout; fetch any other one again"

FILES_ONLY = "run=no is content with the files, and runs nothing of the bundle"


def verify(call: Call) -> int:
    """Print what was verified; exit with 1 if that is not all, or it is rejected."""
    from ingot.bundles.verify import verify

    path = call.variables.get("bundle")
    if not path:
        raise IngotError("verify needs bundle=PATH, a folder or a tar")
    run = call.variables.get("run", "yes")
    if run not in ("yes", "no"):
        raise IngotError(f"run=: expected yes or no, found '{run}'")
    try:
        report = verify(Path(path), runs=run == "yes")
    except IngotError as error:
        rejected = IngotError(error.message, error.hint or REBUILD)
        print(f"rejected: {rejected}", file=sys.stderr)
        return FAILED
    print(report.text)
    if report.gap:
        print(f"not verified: {IngotError(report.gap, FILES_ONLY)}", file=sys.stderr)
        return FAILED
    return 0


def run_input(call: Call) -> int:
    """Run the built bundles of the selected models on the sentences of input=."""
    variables = dict(call.variables)
    catalogue = read(call.root, requested_models(variables))
    selection = select(catalogue, variables)
    check_runnable(catalogue, selection)
    for model in selection.models:
        for target in selection.targets:
            run(call.root, model, target, variables["input"])
    return 0


def run(root: Path, model: str, target: str, text: str) -> None:
    """Print the embeddings that the checkout's built bundle returns for sentences.

    Raises: IngotError if it is not built or cannot run here, or a sentence is too long.
    """
    folder = root / "build" / model / target / "bundle"
    if not (folder / "bundle.json").is_file():
        raise IngotError(
            f"{model}@{target} is not built",
            f"run: doit build model={model} target={target}",
        )
    sentences = tuple(part.strip() for part in text.split(SEPARATOR))
    bundle = _read(folder)
    runner = runner_for(bundle, root)
    if isinstance(runner, str):
        raise IngotError(f"{bundle.name} does not run here: {runner}")
    print(report(bundle.name, sentences, encode(bundle, runner, sentences)))


def report(name: str, sentences: tuple[str, ...], encoded: Encoded) -> str:
    """Return a line for each sentence and, of several, the matrix of cosines."""
    lines = [name]
    for number, sentence in enumerate(sentences):
        embedding = encoded.embeddings[number]
        first = " ".join(f"{x:+.5f}" for x in embedding[:SHOWN_DIMS])
        tokens = counted(len(encoded.tokens[number]), "token")
        norm = float((embedding**2).sum()) ** 0.5
        lines += [
            f'[{number}] "{_short(sentence)}", {tokens}',
            f"    {first} ... ({len(embedding)} dims, norm {norm:.6f})",
        ]
    if len(sentences) > 1:
        lines += ["cosine", *matrix(cosines(encoded.embeddings))]
    return "\n".join(lines)


def cosines(embeddings: Array) -> Array:
    """Return the cosine of each two embeddings.

    Shapes: [n, n_embd] -> [n, n].
    """
    import numpy as np

    exact = embeddings.astype(np.float64)
    unit = exact / np.linalg.norm(exact, axis=1, keepdims=True)
    return unit @ unit.T


def matrix(values: Array) -> list[str]:
    """Return the lines of a square matrix with numbered rows and columns."""
    labels = [f"[{number}]" for number in range(len(values))]
    head = " " * 6 + "".join(f"{label:>9}" for label in labels)
    rows = (
        f"{label:<6}" + "".join(f"{value:>9.4f}" for value in row)
        for label, row in zip(labels, values, strict=True)
    )
    return [head, *rows]


def _read(folder: Path) -> Bundle:
    try:
        return read_bundle(folder)
    except IngotError as error:
        raise IngotError(
            f"{folder}: {error.message}", "build it again: a build output was changed"
        ) from error


def _short(sentence: str) -> str:
    if len(sentence) <= SHOWN_CHARACTERS:
        return sentence
    return f"{sentence[: SHOWN_CHARACTERS - 3]}..."
