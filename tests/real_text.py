"""Compare what a decoder with trained weights writes with what transformers writes.

Both read the same file of weights: the target in its own blocks, transformers in
float64. transformers gets the tokens that the target chose; up to the first difference
these are its own too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ingot.bundles.generator import Request, ctx_for, request_ids
from ingot.bundles.reader import Bundle
from ingot.bundles.target_runner import module_of
from ingot.bundles.vocabulary import read_vocabulary
from ingot.engine.actions import Output, Source, SourceFile
from ingot.engine.task_records import Records
from ingot.model.runner import Runner
from ingot.model.weight_sources import WeightSource
from ingot.programs.golden.main import load
from ingot.runtime.decoder import Decoder
from ingot.runtime.session import open_session

Array = Any

N_TOKENS = 64
PROMPTS = (
    "What is the capital of France?",
    "Once upon a time, there was a little girl named Lily.",
    "Write a short poem about the sea.",
    "How many legs does a spider have?",
    "The old man walked to the river because",
    "Explain photosynthesis in two sentences.",
    "Translate to French: good morning, my friend.",
    "1, 2, 3, 5, 8, 13,",
    "def add(a, b):",
    "Name three fruits that are red.",
    "Tom had a red ball. One day,",
    "Why is the sky blue?",
    "The recipe needs flour, sugar and",
    "List the planets, from the sun outwards.",
    "¿Cuál es la capital de España?",
    "Whose dog is barking so loudly at night?",
    "In 1969, two men",
    "Give me a word that rhymes with 'house'.",
    "The cat and the mouse were friends, but",
    "日本の首都はどこですか。",
)


@dataclass(frozen=True, slots=True)
class Step:
    """A token after a prompt, as the target and transformers see it.

    Units: shares of the range of transformers' logits.
    """

    same: bool  # both have the same best token
    error: float  # the largest difference of two logits
    gap: float  # by which transformers' best token leads the target's


def continued(bundle: Bundle, runner: Runner, prompt: str) -> tuple[list[int], Array]:
    """Return the ids of a prompt and the tokens after it, with the logits of these.

    A token that ends a text is followed by others all the same.

    Shapes: -> [prompt + 64], [64, n_vocab].
    """
    ids = request_ids(bundle, read_vocabulary(bundle), Request(prompt))
    session = open_session(runner, module_of(bundle))
    room = ctx_for(len(ids) + N_TOKENS, bundle)
    decoder = Decoder(session, bundle.entry_points, room)
    logits = [decoder.prefill(tuple(ids))]
    while len(logits) < N_TOKENS:
        logits.append(decoder.decode(int(logits[-1].argmax())))
    return ids + [int(x.argmax()) for x in logits], np.stack(logits)


def steps(judge: Any, tokens: list[int], logits: Array) -> Iterator[Step]:
    """Yield what transformers thinks of each token that a target has written."""
    import torch

    given = torch.tensor([tokens[:-1]])
    with torch.no_grad():
        made = judge(input_ids=given, use_cache=False, logits_to_keep=N_TOKENS)
    for ours, theirs in zip(logits, made.logits[0].numpy(), strict=True):
        span, chosen = np.ptp(theirs), int(ours.argmax())
        yield Step(
            chosen == int(theirs.argmax()),
            float(np.abs(ours - theirs).max() / span),
            float((theirs.max() - theirs[chosen]) / span),
        )


def judge_of(root: Path, source: WeightSource, folder: Path, n_ctx: int) -> Any:
    """Return the model that transformers reads from the files of a built model."""
    (file,) = source.files
    path = folder / Path(file.path).name
    path.symlink_to(_built(root, file.source))
    if source.config:
        (folder / "config.json").symlink_to(_built(root, source.config))
    gguf = path.name if path.suffix == ".gguf" else None
    return load(folder, gguf, n_ctx).double()


def _built(root: Path, source: Source) -> Path:
    """Return a file that an action has made in a checkout, or that was there."""
    if isinstance(source, SourceFile):
        return Path(source.path)
    assert isinstance(source, Output)
    record = Records(root / "build/.ingot/records.sqlite").get(source.task)
    assert record
    digest = dict(record.outputs)[source.path].hash
    return Path(os.environ["INGOT_CACHE"], "cas", digest[:2], digest)
