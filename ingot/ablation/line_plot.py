"""Plot the results of an ablation: one line per mode, block by block."""

from __future__ import annotations

import importlib.util
import math
from io import StringIO
from typing import TYPE_CHECKING, Any

from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.ablation.tables import Report

EXTRA = "plot"

# Okabe & Ito 2008, "Color Universal Design": every kind of colour vision can tell these
# apart; the markers and dashes are for print without colour.
STYLES = {
    "f32": ("#000000", "o", "-"),
    "weights": ("#0072B2", "s", "-"),
    "activations": ("#009E73", "^", "--"),
    "both": ("#D55E00", "D", "-."),
    "hardware": ("#CC79A7", "v", "-"),
}

# The number of names that fit below an axis.
_NAMES = 26


def refuse_no_matplotlib() -> None:
    """Fail early if the results could not be drawn at the end.

    Raises: IngotError where matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise IngotError(
            "ablate draws with matplotlib, which is not installed",
            f"install the extra '{EXTRA}': "
            f"python -m pip install -c constraints.txt -e '.[{EXTRA}]'",
        )


def svg(report: Report) -> str:
    """Return the errors as SVG, with the same bytes each time."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    out = StringIO()
    # Keep text as text, which is small and searchable.
    with matplotlib.rc_context({"svg.hashsalt": "ingot", "svg.fonttype": "none"}):
        drawn = figure(report)
        FigureCanvasSVG(drawn)
        drawn.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def figure(report: Report) -> Any:
    """Return the figure: blocks from left to right, their errors on a log scale."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row.block for row in report.measured.rows))
    drawn = Figure(figsize=(9.0, 4.8), layout="constrained")
    axes = drawn.add_subplot()
    for mode in report.modes:
        colour, marker, dashes = STYLES[mode.name]
        schemes = ", ".join(sorted(set(mode.schemes.values())))
        label = f"{mode.name} ({schemes})" if schemes else mode.name
        places, errors = _points(report, mode.name, names)
        axes.plot(
            places,
            errors,
            color=colour,
            marker=marker,
            linestyle=dashes,
            markersize=4,
            linewidth=1.5,
            label=label,
        )
    axes.set_yscale("log")
    axes.set_xlabel("block, from tokens to the model's result")
    axes.set_ylabel("RMS error / RMS value, after the block")
    axes.set_title(
        f"{report.model}: error against float64 ({report.tokens} random tokens)"
    )
    step = math.ceil(len(names) / _NAMES)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=60, ha="right")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    drawn.legend(loc="outside right center", frameon=False)
    return drawn


def _points(
    report: Report, mode: str, names: list[str]
) -> tuple[list[int], list[float]]:
    """Return the points of a line; zero and infinity have none."""
    found = [
        (names.index(row.block), row.error.relative)
        for row in report.measured.rows
        if row.mode == mode and 0 < row.error.relative < math.inf
    ]
    return [place for place, _ in found], [error for _, error in found]
