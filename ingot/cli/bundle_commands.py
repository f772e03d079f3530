"""Run `doit run input=...`: use a built bundle."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ingot.bundles.encoder import Encoded, Long, encode
from ingot.bundles.reader import Bundle, read_bundle
from ingot.bundles.target_runner import runner_for
from ingot.cli.commands import Call
from ingot.cli.variables import one_of_each
from ingot.errors import IngotError, counted
from ingot.project.catalogue import read, requested_models
from ingot.project.selection import check_runnable, select

Array: TypeAlias = Any

SHOWN_DIMS = 6
SHOWN_CHARACTERS = 48


def built_bundle(root: Path, model: str, target: str) -> Path:
    """Return the folder of the checkout's bundle of a model for a target.

    Raises: IngotError if it is not built.
    """
    folder = root / "build" / model / target / "bundle"
    if not (folder / "bundle.json").is_file():
        raise IngotError(
            f"{model}@{target} is not built",
            f"run: doit build model={model} target={target}",
        )
    return folder


def run_input(call: Call) -> int:
    """Run the built bundles of the selected models on sentences.

    Raises: IngotError as `run`; nothing is printed then.
    """
    variables = dict(call.variables)
    wanted = Wanted(
        sentences=_sentences(variables),
        long=_long(variables),
        json=call.json,
        to=_to(variables),
    )
    catalogue = read(call.root, requested_models(variables))
    selection = select(catalogue, variables)
    check_runnable(catalogue, selection)
    if wanted.to:
        one_of_each("doit run to=", selection.models, selection.targets)
    for model in selection.models:
        for target in selection.targets:
            run(call.root, model, target, wanted)
    return 0


@dataclass(frozen=True, slots=True)
class Wanted:
    """The sentences to encode, and the form of the result."""

    sentences: tuple[str, ...]
    long: Long = Long.REFUSE
    json: bool = False
    to: Path | None = None


def _sentences(variables: dict[str, str]) -> tuple[str, ...]:
    """Return the sentences of input= and other=, or the lines of inputs=.

    Raises: IngotError if there are none, or if the file cannot be read.
    """
    if "inputs" not in variables:
        if "input" not in variables:
            raise IngotError(*NO_SENTENCE)
        return tuple(variables[x] for x in ("input", "other") if x in variables)
    for name in ("input", "other"):
        if name in variables:
            raise IngotError(f"{name}= and inputs= are two ways to say the same")
    path = variables["inputs"]
    try:
        if path == "-":
            content = sys.stdin.buffer.read()
        else:
            content = Path(path).expanduser().read_bytes()
        text = content.decode()
    except OSError as error:
        raise IngotError(f"inputs={path}: cannot be read; {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise IngotError(f"inputs={path}: line {line} is not UTF-8 text") from error
    # Not splitlines: a sentence may contain other separators, such as U+2028.
    lines = text.removesuffix("\n").replace("\r\n", "\n").split("\n")
    if not text:
        raise IngotError(f"inputs={path}: expected a sentence on each line, found none")
    return tuple(lines)


NO_SENTENCE = (
    "no sentence is given",
    'input="a sentence", or inputs=FILE with one on each line (- is standard input)',
)


def _long(variables: dict[str, str]) -> Long:
    given = variables.get("long", Long.REFUSE.value)
    known = [item.value for item in Long]
    if given not in known:
        raise IngotError(f"long={given}: expected {', '.join(known)}")
    return Long(given)


def _to(variables: dict[str, str]) -> Path | None:
    if "to" not in variables:
        return None
    path = Path(variables["to"]).expanduser()
    if path.suffix != ".npy" or not path.parent.is_dir():
        raise IngotError(
            f"to={path}: expected a file that ends in .npy, in a folder that is there",
            "it gets an array [sentence, n_embd] of f32; --json prints JSON",
        )
    return path


def run(root: Path, model: str, target: str, wanted: Wanted) -> None:
    """Print the embeddings that the checkout's built bundle returns for sentences.

    Raises: IngotError if it is not built or cannot run here, or a sentence is too long.
    """
    bundle = _read(built_bundle(root, model, target))
    runner = runner_for(bundle, root)
    if isinstance(runner, str):
        raise IngotError(f"{bundle.name} does not run here: {runner}")
    made = encode(bundle, runner, wanted.sentences, wanted.long)
    if wanted.to:
        _write(wanted.to, made.embeddings)
    if wanted.json:
        print(as_json(bundle.name, wanted.sentences, made))
    else:
        print(report(bundle.name, wanted.sentences, made))


def _write(path: Path, embeddings: Array) -> None:
    """Write embeddings into a file, which is whole or as it was before.

    Raises: IngotError if it cannot be written.
    """
    import numpy as np

    partial = path.with_name(f".{path.name}.{os.getpid()}.npy")
    try:
        np.save(partial, embeddings.astype(np.float32))
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise IngotError(f"to={path}: cannot be written; {error.strerror}") from error


def as_json(name: str, sentences: tuple[str, ...], encoded: Encoded) -> str:
    """Return whole embeddings and all cosines as one line of JSON."""
    rows = zip(sentences, encoded.tokens, encoded.windows, strict=True)
    described = [
        {
            "sentence": sentence,
            "tokens": len(tokens),
            "tokens_used": sum(map(len, windows)) if len(windows) == 1 else len(tokens),
            "windows": len(windows),
            "embedding": [float(x) for x in encoded.embeddings[number]],
        }
        for number, (sentence, tokens, windows) in enumerate(rows)
    ]
    cosine = cosines(encoded.embeddings).tolist()
    return json.dumps({"bundle": name, "sentences": described, "cosine": cosine})


def report(name: str, sentences: tuple[str, ...], encoded: Encoded) -> str:
    """Return a line for each sentence and, of several, the matrix of cosines."""
    lines = [name]
    for number, sentence in enumerate(sentences):
        embedding = encoded.embeddings[number]
        first = " ".join(f"{x:+.5f}" for x in embedding[:SHOWN_DIMS])
        tokens = counted(len(encoded.tokens[number]), "token")
        used = encoded.windows[number]
        if len(used) > 1:
            tokens += f" in {len(used)} parts"
        elif len(used[0]) < len(encoded.tokens[number]):
            tokens += f", cut to {len(used[0])}"
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
    norms = np.linalg.norm(exact, axis=1, keepdims=True)
    unit = exact / np.where(norms > 0, norms, 1.0)
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
