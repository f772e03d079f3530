"""Write builds and figures as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from html import escape

from ingot.engine.actions import stage_of
from ingot.project.catalogue import STAGES
from ingot.report import error_growth, plots, svg
from ingot.report.build_runs import Build, Cell, Point

STYLE = """
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1180px; padding: 16px; background: var(--page);
  color: var(--ink); font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 22px; margin: 4px 0 } h2 { font-size: 17px; margin: 28px 0 8px }
p { margin: 4px 0; max-width: 70ch } .dim { color: var(--dim) }
svg { display: block; width: 100%; height: auto; max-width: 560px }
svg .ink { fill: var(--ink) }
.grid { display: grid; gap: 16px;
  grid-template-columns: repeat(auto-fill, minmax(min(330px, 100%), 1fr)) }
.card { border: 1px solid var(--rule); border-radius: 8px; padding: 12px }
table { border-collapse: separate; border-spacing: 4px; width: 100% }
th { text-align: left; font-weight: 600; padding: 2px 6px; overflow-wrap: anywhere }
td { padding: 6px 8px; border-radius: 6px; background: var(--panel) }
td b { display: block } td small { color: var(--dim) }
td.passed { box-shadow: inset 4px 0 var(--green) }
td.failed { box-shadow: inset 4px 0 var(--red) }
td.built, td.changed { box-shadow: inset 4px 0 var(--orange) }
.passed b { color: var(--green) } .failed b { color: var(--red) }
.built b, .changed b { color: var(--orange) }
pre { overflow-x: auto; padding: 8px; border-radius: 6px; background: var(--panel);
  border-left: 4px solid var(--red); font-size: 12px }
details { border-top: 1px solid var(--rule); padding: 6px 0 }
summary { cursor: pointer } li { overflow-wrap: anywhere }
ul { margin: 4px 0; padding-left: 20px }
@media (max-width: 640px) {
  pre { white-space: pre-wrap; overflow-wrap: anywhere }
  thead { display: none } table, tbody, tr { display: block }
  tr { display: grid; grid-template-columns: 1fr 1fr; gap: 6px; margin-bottom: 14px }
  tbody th { grid-column: 1 / -1; padding: 0 }
  td.none { display: none } td::before { content: attr(data-target);
    display: block; font-size: 12px; color: var(--dim) }
}
"""

MARKS = {
    "passed": "✓ passed",
    "failed": "✗ failed",
    "changed": "changed since its check",
    "built": "compiled, not checked",
    "none": "–",
}


def page(
    models: Sequence[str],
    targets: Sequence[str],
    cells: dict[tuple[str, str], Cell],
    builds: Sequence[Build],
    series: dict[tuple[str, str], list[Point]],
) -> str:
    """Return the report as one HTML file."""
    known = [cell for cell in cells.values() if cell.status != "none"]
    body = [
        *_head(builds, known),
        *_matrix(models, targets, cells),
        *_failures(builds, known),
        *_plots(known, builds),
        *_benchmarks(cells, series),
        *_reasons(builds),
    ]
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>ingot: builds</title><style>{svg.STYLE}{STYLE}</style></head>",
            "<body>",
            *body,
            "</body></html>",
            "",
        ]
    )


def _plots(known: Sequence[Cell], builds: Sequence[Build]) -> Iterator[str]:
    """Yield the plots for which there are figures."""
    checked = [cell for cell in known if cell.figures.get("check")]
    sized = [cell for cell in known if cell.figures.get("sizes")]
    cards = []
    if checked:
        cards.append(("Worst error over its tolerance", plots.margins(checked)))
    if sized:
        cards.append(("Sizes", plots.sizes(sized)))
    if builds:
        cards.append(("What builds did", plots.activity(builds[-40:])))
    if cards:
        yield '<h2>Checks, sizes, builds</h2><div class="grid">'
        yield from (_card(title, plot) for title, plot in cards)
        yield "</div>"


def _benchmarks(
    cells: dict[tuple[str, str], Cell], series: dict[tuple[str, str], list[Point]]
) -> Iterator[str]:
    """Yield a plot for each benchmark."""
    if not series:
        return
    yield "<h2>Benchmarks</h2><p class=dim>The line is the median of a build's"
    yield "repetitions, the band their middle half: a step within the band is noise."
    yield '</p><div class="grid">'
    for (pair, what), points in series.items():
        model, _, target = pair.partition("@")
        found = cells.get((model, target))
        note = f", {found.weights}" if found and found.weights else ""
        if found and found.figures.get("emulated"):
            note += ", emulated: not the speed of the device"
        yield _card(f"{pair}{note}", plots.benchmark(what, points[-60:]))
    yield "</div>"


def _head(builds: Sequence[Build], known: Sequence[Cell]) -> Iterator[str]:
    of = Counter(cell.status for cell in known)
    verdicts = {
        "failed": "failed",
        "passed": "passed",
        "changed": "changed since checked",
        "built": "compiled, not checked",
    }
    verdict = "; ".join(
        f"{of[how]} {words}" for how, words in verdicts.items() if of[how]
    )
    yield f"<h1>{verdict or 'no build yet'}</h1>"
    if builds:
        last = builds[-1]
        counts = ", ".join(f"{count} {how}" for how, count in last.counts.items())
        words = escape(" ".join(last.words))
        how = "succeeded" if last.exit_code == 0 else f"ended with {last.exit_code}"
        yield (
            f"<p class=dim>The last build with actions, <code>doit {words}</code>,"
            f" {plots.day(last.at_s)}, {how} after {last.wall_s:.1f} s: {counts}.</p>"
        )


def _matrix(
    models: Sequence[str],
    targets: Sequence[str],
    cells: dict[tuple[str, str], Cell],
) -> Iterator[str]:
    yield "<h2>Models and targets</h2><table><thead><tr><th></th>"
    yield "".join(f"<th>{escape(target)}</th>" for target in targets)
    yield "</tr></thead><tbody>"
    for model in models:
        row = [_cell(cells[model, target], target) for target in targets]
        notes = {cells[model, target].weights for target in targets}
        note = "".join(f"<small>{escape(text)}</small>" for text in notes if text)
        yield f"<tr><th>{escape(model)}{note}</th>{''.join(row)}</tr>"
    yield "</tbody></table>"


def _cell(cell: Cell, target: str) -> str:
    note = ""
    if cell.failed:
        note = ", ".join(stage_of(task) for task in cell.failed)
    elif cell.status == "passed" and cell.margin is not None:
        note = "; ".join([f"error {cell.margin:.2g} of tolerance", *_judged(cell)])
    elif cell.status == "none":
        note = "not built"
    elif cell.status != "passed":
        note = cell.unchecked
    return (
        f'<td class="{cell.status}" data-target="{escape(target)}">'
        f"<b>{MARKS[cell.status]}</b><small>{escape(note)}</small></td>"
    )


def _judged(cell: Cell) -> Iterator[str]:
    """Yield what rounded weights cost, and that a model has no independent judge."""
    if quality := cell.figures.get("quality"):
        yield f"perplexity {quality['perplexity_ratio']} times f32's"
        yield f"KL {quality['kl']}"
    if (judge := cell.figures.get("judge", "")).startswith("no "):
        yield judge


def _failures(builds: Sequence[Build], known: Sequence[Cell]) -> Iterator[str]:
    """Yield the messages of failed actions, and the error plot of a failed check."""
    failed = {
        task: str(item.get("message", ""))
        for task, item in (builds[-1].actions.items() if builds else ())
        if item["how"] == "failed"
    }
    for cell in known:
        failed |= cell.failed
    compared = {f"check:{cell.pair}": cell.comparisons for cell in known}
    if failed:
        yield "<h2>What failed</h2>"
    for task, message in failed.items():
        yield f"<p><b>{escape(task)}</b></p><pre>{escape(message)}</pre>"
        if found := compared.get(task):
            title = "Where the error comes from: the first red row"
            yield f'<div class="grid">{_card(title, error_growth.origins(found))}</div>'


def _card(title: str, plot: str) -> str:
    return f'<div class="card"><p><b>{escape(title)}</b></p>{plot}</div>'


def _reasons(builds: Sequence[Build]) -> Iterator[str]:
    """Yield what the last build reran, by stage; root causes come first."""
    if not builds:
        return
    yield "<h2>What the last build reran, and why</h2>"
    by_stage: defaultdict[str, list[str]] = defaultdict(list)
    for task in builds[-1].actions:
        by_stage[stage_of(task)].append(task)
    for stage in sorted(by_stage, key=lambda name: [*STAGES, name].index(name)):
        items = [_reason(task, builds[-1].actions[task]) for task in by_stage[stage]]
        causes = sum(cause for cause, _ in items)
        note = f", {causes} changed directly" if causes else ", because of the above"
        yield f"<details{' open' if causes and len(items) < 4 else ''}><summary>"
        yield f"<b>{stage}</b> <span class=dim>{len(items)}{note}</span></summary><ul>"
        yield from (text for _, text in sorted(items, key=lambda item: not item[0]))
        yield "</ul></details>"


def _reason(task: str, item: dict[str, object]) -> tuple[bool, str]:
    """Return whether the action itself changed, and its line."""
    why = item.get("why")
    reasons = [str(reason) for reason in why] if isinstance(why, list) else []
    follows = any(reason.startswith("it follows") for reason in reasons)
    # Lines about an action that do not name a difference start with these.
    cause = not follows or not all(reason.startswith("it ") for reason in reasons)
    note = "<br>".join(escape(reason) for reason in reasons)
    line = f"<li>{escape(task)}: {escape(str(item['how']))}<br>"
    return cause, f"{line}<span class=dim>{note}</span></li>"
