"""Write the files of an ablation, and print its tables."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ingot.ablation.experiment import Measured, Row
from ingot.ablation.line_plot import line_plot
from ingot.ablation.measure import TOLERANCES
from ingot.ablation.modes import MODES, Mode
from ingot.checks.compare import number
from ingot.engine.atomic_files import remedy
from ingot.errors import IngotError

SCHEMA = "ingot.ablate.v1"
FILES = ("ablate.json", "ablate.csv", "ablate.svg")
COLUMNS = (
    "max_abs_error",
    "mse",
    "cosine",
    *(f"close_{limit:.0e}".replace("e-0", "e-") for limit in TOLERANCES),
    "relative_error",
    "own_error",
)


WIDTH = 100


@dataclass(frozen=True, slots=True)
class Report:
    """What was computed, and the results."""

    model: str
    entry_point: str
    tokens: int
    seed: int
    schemes: Mapping[str, str]  # by matrix
    modes: tuple[Mode, ...]
    measured: Measured
    # For each kind of matrix, rounded alone: how far it changes the model's result.
    kinds: Mapping[str, Row]
    target: str
    # By block: the error that the target's last check found in its artifact.
    artifact: Mapping[str, float]

    @property
    def scheme(self) -> str:
        """Return what matrices are rounded to, in a few words."""
        return ", ".join(sorted(set(self.schemes.values())))

    def worst_kind(self) -> Row | None:
        """Return the row of the worst kind of matrix; its mode is the kind."""
        rows = self.kinds.values()
        return max(rows, key=lambda row: row.error.relative, default=None)


def write(report: Report, folder: Path) -> None:
    """Write the report's files, each atomically.

    Raises: IngotError if the folder cannot be written.
    """
    contents = (_json(report), "".join(_lines(report)), line_plot(report))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in zip(FILES, contents, strict=True):
            temporary = folder / f".{name}.{os.getpid()}"
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, folder / name)
    except OSError as error:
        raise IngotError(
            f"{folder}: cannot be written: {error.strerror}",
            remedy(error, "in the build folder"),
        ) from error


def show(report: Report, out: IO[str]) -> None:
    """Print one table per mode, and conclusions from them."""
    from rich.console import Console

    # A file has no width; the 80 columns of a terminal would cut numbers off.
    width = None if out.isatty() else WIDTH
    console = Console(file=out, width=width, highlight=False, markup=False)
    for mode in report.modes:
        console.print(_table(report, mode))
    console.print(_summary(report))
    for line in _conclusions(report):
        console.print(line, soft_wrap=True)


def _table(report: Report, mode: Mode) -> Any:
    from rich.table import Table

    text = MODES[mode.name]
    if set(mode.schemes) and mode.name != "hardware":
        text += f"; matrices: {report.scheme}"
    table = Table(title=f"{mode.name}: {text}", title_justify="left", box=None)
    checked = mode.name == "f32" and bool(report.artifact)
    columns = ["max error", "MSE", "cosine", "≤1e-2", "≤1e-3", "own error"]
    table.add_column("block", no_wrap=True)
    for name in columns + [report.target] * checked:
        table.add_column(name, justify="right", no_wrap=True)
    last = report.measured.last(mode.name)
    for row in report.measured.rows:
        if row.mode != mode.name:
            continue
        cells = [
            f"{row.block}: {row.value}" if row is last else row.block,
            _short(row.error.max_abs),
            _short(row.error.mse),
            f"{row.error.cosine:.6f}",
            *(f"{share:.1%}" for share in row.error.close),
            _short(row.own_error),
        ]
        if checked:
            cells.append(_short(report.artifact.get(row.block)))
        table.add_row(*cells)
    return table


def _summary(report: Report) -> Any:
    from rich.table import Table

    measured = report.measured
    table = Table(
        title="the block that adds most error, by mode", title_justify="left", box=None
    )
    table.add_column("mode", no_wrap=True)
    table.add_column("block", no_wrap=True)
    numbers = ["own error", "at the end"]
    for name in numbers + ["top 1", "KL, nats"] * bool(measured.agreements):
        table.add_column(name, justify="right", no_wrap=True)
    for mode in report.modes:
        worst, last = measured.most_error(mode.name), measured.last(mode.name)
        cells = [mode.name, worst.block]
        cells += [_short(worst.own_error), _short(last.error.relative)]
        if agreement := measured.agreements.get(mode.name):
            cells += [f"{agreement.top_1:.1%}", _short(agreement.kl)]
        table.add_row(*cells)
    return table


def _conclusions(report: Report) -> Iterator[str]:
    """Yield what the tables do not show by themselves."""
    yield (
        "own error: that of a block with exact inputs; at the end: that of "
        f"{report.measured.rows[-1].value}; both RMS error / RMS value"
    )
    if report.artifact:
        yield f"{report.target}: largest error of the artifact in the last check"
    worst_kind = report.worst_kind()
    if worst_kind:
        ranked = sorted(report.kinds.values(), key=lambda row: -row.error.relative)
        shares = ", ".join(f"{row.mode} {_short(row.error.relative)}" for row in ranked)
        yield f"matrices, one kind rounded at a time ({report.scheme}): {shares}"
        yield f"weights: of all kinds of matrix, {worst_kind.mode} adds most error"


def _json(report: Report) -> str:
    measured = report.measured
    worst_kind = report.worst_kind()
    content = {
        "schema": SCHEMA,
        "model": report.model,
        "entry_point": report.entry_point,
        "tokens": report.tokens,
        "seed": report.seed,
        "matrices": dict(report.schemes),
        "modes": {mode.name: _of_mode(report, mode) for mode in report.modes},
        "rows": [
            {"mode": row.mode, "block": row.block, "value": row.value, **_numbers(row)}
            for row in measured.rows
        ],
        "kinds": {name: _numbers(row) for name, row in report.kinds.items()},
        "worst_kind": worst_kind.mode if worst_kind else None,
        "checked": {
            "target": report.target,
            "max_abs_error": {k: number(v, 3) for k, v in report.artifact.items()},
        },
    }
    return json.dumps(content, indent=1) + "\n"


def _of_mode(report: Report, mode: Mode) -> dict[str, Any]:
    agreement = report.measured.agreements.get(mode.name)
    return {
        "rounds": MODES[mode.name],
        "most_error": report.measured.most_error(mode.name).block,
        "top_1": agreement and number(agreement.top_1, 6),
        "kl_nats": agreement and number(agreement.kl, 3),
    }


def _lines(report: Report) -> Iterator[str]:
    """Yield the rows as comma-separated values, with a first line of names."""
    yield ",".join(("mode", "block", "value", *COLUMNS)) + "\n"
    for row in report.measured.rows:
        cells = (row.mode, row.block, row.value, *_numbers(row).values())
        yield ",".join(str(cell) for cell in cells) + "\n"


def _numbers(row: Row) -> dict[str, Any]:
    """Return a row's numbers, rounded so that they do not depend on the machine."""
    error = row.error
    cosine = round(error.cosine, 9) if math.isfinite(error.cosine) else "nan"
    found = [number(error.max_abs, 3), number(error.mse, 3), cosine]
    found += [number(share, 4) for share in error.close]
    found += [number(error.relative, 3)]
    own = None if row.own_error is None else number(row.own_error, 3)
    return dict(zip(COLUMNS, (*found, own), strict=True))


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"
