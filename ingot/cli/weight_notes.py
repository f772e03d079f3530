"""Say which models have synthetic weights, and offer the terms of their own.

A model whose terms the user has not accepted is built from random weights. Nobody is
asked without a terminal, so such a build never waits.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doit.task import Task

    from ingot.cli.tasks import Checkout
    from ingot.project.catalogue_values import Model

COLUMNS = 88


def baked_models(
    checkout: Checkout, tasks: Mapping[str, Task], chosen: Sequence[str]
) -> dict[str, Model]:
    """Return the models whose weights the chosen tasks need, by name."""
    noted = {n: m for n, m in checkout.models.items() if m.weights or m.terms}
    if not noted:
        return {}
    pending, found = list(chosen), set[str]()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += tasks[name].task_dep
    bakes = {name.partition("@")[0] for name in found if name.startswith("bake:")}
    return {name: model for name, model in noted.items() if f"bake:{name}" in bakes}


def offer_terms(models: Iterable[Model], root: Path) -> bool:
    """Show terms that the user has not answered, and ask; return whether one was yes.

    Raises: IngotError if the answer cannot be kept.
    """
    terms = {model.terms for model in models if model.terms}
    open_ones = [item for item in terms if not item.accepted]
    # A closed stream is None.
    streams = (sys.stdin, sys.stderr)
    has_terminal = all(stream and stream.isatty() for stream in streams)
    if not open_ones or not has_terminal or os.environ.get("CI"):
        return False
    from ingot.model.library import find
    from ingot.project.accepted_terms import is_answered, remember

    accepted = False
    for item in open_ones:
        if is_answered(item):
            continue
        text = find(root, item.text).read_text(encoding="utf-8")
        for line in text.splitlines():
            print(textwrap.fill(line, COLUMNS), file=sys.stderr)
        print(f"\nDo you accept these terms, {item.text}?", file=sys.stderr)
        question = "Without them, the weights are synthetic. [y/N] "
        print(question, end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline().strip().lower() in ("y", "yes")
        remember(item, answer)
        accepted |= answer
    return accepted


def weight_notes(models: Mapping[str, Model]) -> Iterator[str]:
    """Yield what a build's summary says about the weights of its models."""
    by_note: dict[str, list[str]] = {}
    for name, model in models.items():
        if model.weights:
            note = model.weights
            if model.terms:
                way = f"INGOT_ACCEPT={model.terms.name} accepts {model.terms.text}"
                note = f"{note} until you accept the model's terms ({way})"
            by_note.setdefault(note, []).append(name)
    for note, names in by_note.items():
        yield f"{note}: {', '.join(names)}"
