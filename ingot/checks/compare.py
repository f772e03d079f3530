"""Compare what a target computed with what is expected, as one row of a report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ingot.checks.losses import loss_scale
from ingot.errors import IngotError
from ingot.model.tolerance import CHECK_LEVELS, Tolerance

Array: TypeAlias = Any

LEVELS = (*CHECK_LEVELS, "tokens")
"""From the smallest piece to the whole; the last three compare the shipped model."""

EXACT = Tolerance(0.0, None, "integers are exact")


@dataclass(frozen=True, slots=True)
class Place:
    """The subject of a row: everything except the numbers."""

    level: str
    name: str  # the instance, the block, "oracle", "sentence 3"
    entry_point: str
    inputs: tuple[tuple[str, int], ...]  # ("batch", 2), ("seq", 17), ("padded", 1)
    value: str  # the result compared: "hidden"

    def __str__(self) -> str:
        """Return the subject as an error names it."""
        sizes = ", ".join(f"{name} {size}" for name, size in self.inputs)
        return f"{self.level} {self.name} ({sizes})"


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: the number that is nearest to its limit, or farthest beyond it.

    A number that is not finite fails it.
    """

    place: Place
    max_abs_error: float
    worst: tuple[int, ...]
    expected: float
    got: float
    cosine: float | None  # the smallest over all vectors of the last dimension
    tolerance: float
    tolerance_source: str
    passed: bool

    @property
    def share(self) -> float:
        """Return the error as a share of its limit."""
        if self.tolerance:
            return self.max_abs_error / self.tolerance
        return math.inf if self.max_abs_error else 0.0


def compare(
    place: Place,
    expected: Array,
    got: Array,
    tolerance: Tolerance,
    real: Array | None = None,
    loss: Array | None = None,
) -> Row:
    """Return the row for two arrays of one shape; a value that is not finite fails.

    Integers are exact at every level, because a nearby index means nothing. Where
    `real` is false there is padding, which is not compared. `loss` is what float32
    loses of each number. The row is about the number that is nearest to its limit.

    Shapes: real and loss as expected and got.
    Raises: IngotError if the shapes differ, or the arrays are empty.
    """
    import numpy as np

    if np.asarray(got).dtype.kind in "biu":
        tolerance = EXACT
    exact = np.asarray(expected, dtype=np.float64)
    given = np.asarray(got).astype(np.float64)
    if exact.shape != given.shape or not exact.size:
        raise IngotError(
            f"{place.level} {place.name}: {place.value} has the wrong shape; "
            f"expected {list(exact.shape)}, got {list(given.shape)}"
        )
    with np.errstate(invalid="ignore"):
        error = np.abs(exact - given)
    # An expected infinity fails too, because the difference of two infinities means
    # nothing.
    error[~np.isfinite(error)] = np.inf
    if real is not None:
        # Nothing that is expected of padding, and nothing got there, says anything.
        error, exact = np.where(real, error, 0.0), np.where(real, exact, 0.0)
        given = np.where(real, given, 0.0)
    limits = _limits(tolerance, exact, real, loss)
    worst = np.unravel_index(int(np.argmax(_shares(error, limits))), error.shape)
    least = tolerance.min_cosine
    cosine = None if least is None else smallest_cosine(exact, given, real)
    limit = float(limits[worst])
    close = bool((error <= limits).all())
    alike = cosine is None or least is None or cosine >= least
    return Row(
        place=place,
        max_abs_error=float(error[worst]),
        worst=tuple(int(index) for index in worst),
        expected=float(exact[worst]),
        got=float(given[worst]),
        cosine=cosine,
        tolerance=limit,
        tolerance_source=tolerance.source,
        passed=close and alike,
    )


def _limits(
    tolerance: Tolerance, exact: Array, real: Array | None, loss: Array | None
) -> Array:
    import numpy as np

    if not tolerance.of_losses:
        return np.full(exact.shape, tolerance.limit(exact))
    assert loss is not None
    scale = loss_scale(exact, loss, real)
    return tolerance.max_abs_error * np.broadcast_to(scale, np.atleast_1d(exact).shape)


def _shares(error: Array, limits: Array) -> Array:
    """Return each error divided by its limit; infinity where no error is allowed."""
    import numpy as np

    with np.errstate(all="ignore"):
        shares = error / limits
    return np.where(error > 0, np.where(limits > 0, shares, np.inf), 0.0)


def smallest_cosine(a: Array, b: Array, real: Array | None = None) -> float:
    """Return the smallest cosine between real vectors; NaN if it is undefined.

    Shapes: a, b, real [..., n]: the vectors are the last dimension.
    """
    import numpy as np

    with np.errstate(all="ignore"):
        dot = np.sum(a * b, axis=-1)
        cosines = dot / (np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1))
    if real is not None:
        cosines = cosines[real.any(axis=-1)]
    return float(np.min(cosines))


def rounded(row: Row) -> Row:
    """Return the row with numbers that do not depend on the machine.

    The oracle's float64 sums differ in their last digits with the CPU's vector width:
    errors keep 3 significant digits, values 7 (a float32's), cosines 9 decimals.
    """

    def short(value: float, digits: int) -> float:
        return float(f"{value:.{digits}g}") if math.isfinite(value) else value

    return replace(
        row,
        max_abs_error=short(row.max_abs_error, 3),
        expected=short(row.expected, 7),
        got=short(row.got, 7),
        cosine=None if row.cosine is None else round(row.cosine, 9),
        tolerance=short(row.tolerance, 3),
    )


def row_json(row: Row) -> dict[str, Any]:
    """Return a rounded row as JSON values; a number that is not finite is text."""
    return {
        "level": row.place.level,
        "name": row.place.name,
        "entry_point": row.place.entry_point,
        "inputs": dict(row.place.inputs),
        "value": row.place.value,
        "max_abs_error": number(row.max_abs_error, 3),
        "worst": list(row.worst),
        "expected": number(row.expected, 7),
        "got": number(row.got, 7),
        "cosine": _cosine(row.cosine),
        "tolerance": number(row.tolerance, 3),
        "tolerance_source": row.tolerance_source,
        "passed": row.passed,
    }


def number(value: float, digits: int) -> float | str:
    """Return the value rounded to significant digits; as text if not finite."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else str(value)


def summary(rows: tuple[Row, ...]) -> dict[str, Any]:
    """Return the result of each level: rows, failures, the row nearest its limit."""
    found: dict[str, Any] = {}
    for level in LEVELS:
        of_level = [row for row in rows if row.place.level == level]
        if not of_level:
            continue
        worst = max(of_level, key=lambda row: row.share)
        cosines = [row.cosine for row in of_level if row.cosine is not None]
        found[level] = {
            "rows": len(of_level),
            "failed": sum(not row.passed for row in of_level),
            "max_abs_error": number(worst.max_abs_error, 3),
            "worst_row": str(worst.place),
            "min_cosine": _cosine(min(cosines, default=None)),
            "tolerance": number(worst.tolerance, 3),
            "tolerance_source": worst.tolerance_source,
            "share": number(worst.share, 2),
        }
    return found


def table(rows: tuple[Row, ...]) -> str:
    """Return one line per level, and one per failing row below it."""
    head = f"{'level':<12}{'rows':>5}{'failed':>8}  {'worst error':>11}  {'limit':>7}"
    lines = [f"{head}  {'share':>6}"]
    for level, of_level in summary(rows).items():
        lines.append(
            f"{level:<12}{of_level['rows']:>5}{of_level['failed']:>8}  "
            f"{_short(of_level['max_abs_error']):>11}  "
            f"{_short(of_level['tolerance']):>7}  "
            f"{_percent(of_level['share']):>6} ({of_level['tolerance_source']})"
        )
    failed = [row for row in rows if not row.passed]
    # Enough to see a pattern; the report contains all of them.
    lines += [
        f"  failed: {row.place}: {_short(row.max_abs_error)}" for row in failed[:40]
    ]
    if len(failed) > 40:
        lines.append(f"  and {len(failed) - 40} more")
    return "\n".join(lines)


def _short(value: Mapping[str, Any] | float | str) -> str:
    return f"{value:.1e}" if isinstance(value, float) else str(value)


def _percent(share: float | str) -> str:
    return f"{share:.0%}" if isinstance(share, float) else share


def _cosine(value: float | None) -> float | str | None:
    if value is None or not math.isfinite(value):
        return None if value is None else str(value)
    return round(value, 9)


def explain(task: str, rows: tuple[Row, ...], blocks: Mapping[str, str]) -> str:
    """Return an error that names the first row that failed, and the first wrong block.

    `blocks` maps an instance to the first block that calls it, so that the error for a
    wrong component names the block too.
    """
    failed = [row for row in rows if not row.passed]
    first = _first(failed)
    place = first.place
    lines = [
        f"{task} {place.entry_point}: {place.value} differs from the {_truth(first)}",
        f"  worst at {list(first.worst)}: {_judgement(first)}",
        f"  in {place}",
    ]
    if block := _first_block(failed, blocks):
        lines.append(f"  first wrong block: {block}")
    lines.append(f"  {len(failed)} of {len(rows)} comparisons failed")
    return "\n".join(lines)


def _truth(row: Row) -> str:
    return "oracle" if row.place.level in LEVELS[:4] else "golden file"


def _judgement(row: Row) -> str:
    values = f"expected {row.expected:.6g}, got {row.got:.6g}"
    if row.max_abs_error <= row.tolerance and row.cosine is not None:
        return f"{values}, cosine {row.cosine:.9f} is too low ({row.tolerance_source})"
    error = f"error {row.max_abs_error:.1e} > {row.tolerance:.1e}"
    return f"{values}, {error} ({row.tolerance_source})"


def _first(failed: list[Row]) -> Row:
    """Return the row to explain: the first one of the lowest level."""
    return min(failed, key=lambda row: LEVELS.index(row.place.level))


def _first_block(failed: list[Row], blocks: Mapping[str, str]) -> str:
    """Return the first block that is wrong, or calls a wrong component."""
    for level in ("block", "propagated"):
        for row in failed:
            if row.place.level == level:
                return row.place.name
    for row in failed:
        if row.place.level == "component" and row.place.name in blocks:
            return blocks[row.place.name]
    return ""
