"""Measure a model's error by block and mode, for `doit ablate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ingot.ablation.ablation_report import FILES, Report, show, write
from ingot.ablation.experiment import Row, Subject, measure
from ingot.ablation.modes import (
    kinds,
    modes,
)
from ingot.ablation.prompt import prompt
from ingot.checks.archive_parameters import read_parameters
from ingot.model.graph import EntryPoint
from ingot.model.library import place_oracles
from ingot.model.manifest import Manifest
from ingot.model.oracle import load_oracles

# Each kind of matrix is one more run; a short prompt is enough to see its effect.
SHORT = 8


@dataclass(frozen=True, slots=True)
class Request:
    """What `doit ablate` is to compute."""

    manifest: Manifest
    target: str
    entry: EntryPoint
    modes: tuple[str, ...]
    schemes: Mapping[str, str]  # by matrix
    tokens: int
    seed: int

    @property
    def task(self) -> str:
        """Return the task that provides the weights, unconverted."""
        return f"bake:{self.manifest.model}@plain"


def run(root: Path, request: Request) -> int:
    """Compute, write and print the errors; return the exit code.

    Raises: IngotError for an archive that lacks a parameter.
    """
    model = request.manifest.model
    subject = _subject(root, request)
    chosen = modes(request.modes, request.schemes)
    with _progress() as tell:
        measured = measure(subject, chosen, tell=tell)
        alone = _kinds(request, subject, tell) if "weights" in request.modes else {}
    report = Report(
        model=model,
        entry_point=request.entry.name,
        tokens=request.tokens,
        seed=request.seed,
        schemes=request.schemes,
        modes=chosen,
        measured=measured,
        kinds=alone,
        target=request.target,
        artifact=checked(
            root / f"build/{model}/{request.target}/check.json", request.entry.name
        ),
    )
    folder = root / f"build/{model}/ablate"
    write(report, folder)
    show(report, sys.stdout)
    print(", ".join(f"build/{model}/ablate/{name}" for name in FILES))
    return 0


def checked(path: Path, entry: str) -> dict[str, float]:
    """Return, by block, the largest error in the report of a check.

    The result is empty if there is no report, or an incomplete one.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["rows"]
        found: dict[str, float] = {}
        for row in rows:
            error = row["max_abs_error"]
            if row["level"] != "propagated" or row["entry_point"] != entry:
                continue
            # JSON has no numbers for NaN and infinity; they are written as text.
            found[row["name"]] = max(found.get(row["name"], 0.0), float(error))
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found


def _subject(root: Path, request: Request) -> Subject:
    graph = request.manifest.graph
    place_oracles(root)
    archive = root / f"build/{graph.model}/weights/plain/model.irpa"
    return Subject(
        graph=graph,
        entry=request.entry,
        oracles=load_oracles(graph),
        parameters=read_parameters(graph, archive),
        inputs=prompt(graph, request.entry, request.tokens, request.seed),
    )


def _kinds(
    request: Request, subject: Subject, tell: Callable[[str], None]
) -> dict[str, Row]:
    """Return, by kind of matrix, how far it alone changes the model's result."""
    found = kinds(request.schemes)
    graph, entry = subject.graph, subject.entry
    inputs = prompt(graph, entry, min(request.tokens, SHORT), request.seed)
    short = replace(subject, inputs=inputs)
    measured = measure(short, found, alone=False, tell=tell)
    return {mode.name: measured.last(mode.name) for mode in found}


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Return a function that shows the current block on a terminal."""
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield lambda block: status.update(f"computing {block}")
