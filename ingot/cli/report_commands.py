"""doit's commands `graph` and `report`: builds as pictures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from doit.cmd_base import Command

from ingot.cli.commands import TaskFree, guarded, variables
from ingot.errors import IngotError
from ingot.project.options import TASKS

REPORT = "build/report.html"


class Graph(Command):  # type: ignore[misc]
    """The actions of a build."""

    name = "graph"
    doc_purpose = "draw the actions of a model and target, or of tasks, as SVG"
    doc_usage = "[TASK ...]"
    doc_description = None

    def execute(self, params: Any, args: list[str]) -> int:
        """Write the picture; print where it is."""
        return guarded(lambda: _draw(Path.cwd(), args), TASKS, "graph")


class Report(TaskFree):
    """The builds of this checkout as a page."""

    name = "report"
    doc_purpose = "write a page on the builds: checks, benchmarks, sizes, reasons"
    doc_usage = ""
    doc_description = None

    def work(self) -> int:
        """Write the page; print where it is."""
        return _write_report(Path.cwd())


def _draw(root: Path, patterns: list[str]) -> int:
    from ingot.cli.why import chosen
    from ingot.engine.records import Records
    from ingot.project.catalogue import asked, read
    from ingot.project.selection import select
    from ingot.report.action_graph import Ended, picture

    catalogue = read(root, asked(variables(), patterns))
    selection = select(catalogue, variables())
    tasks = chosen(catalogue, patterns)
    if not tasks:
        tasks = set(catalogue.plan.ends(selection))
    if not tasks:
        reasons = (f"{name} is left out: {why}" for name, why in selection.skipped)
        raise IngotError("nothing is selected to draw", "\n  ".join(reasons))
    needed = catalogue.plan.needed(tasks)
    actions = tuple(a for a in catalogue.plan.actions if a.task in needed)
    records = Records(root / "build/.ingot/records.sqlite")
    ended = {
        task: Ended(record.source, record.wall_ms)
        for task in needed
        if (record := records.get(task)) is not None
    }
    models, targets = ",".join(selection.models), ",".join(selection.targets)
    name = " ".join(patterns) or f"{models}@{targets}"
    file = "".join(c if c.isalnum() or c in "-_@.," else "-" for c in name)
    place = root / "build" / f"graph-{file}.svg"
    place.parent.mkdir(exist_ok=True)
    place.write_text(picture(name, actions, ended), encoding="utf-8")
    print(f"{place.relative_to(root)}: {len(actions)} actions")
    return 0


def _write_report(root: Path) -> int:
    from ingot.project.catalogue import Selection, read
    from ingot.report import build_runs
    from ingot.report.page import page

    catalogue = read(root)
    settings, plan = catalogue.settings, catalogue.plan
    models, targets = list(settings.models), list(settings.targets)
    found = build_runs.read(root)
    cells = {}
    for model in models:
        splats = plan.compiled_only(Selection((model,), ()))
        for target in targets:
            needed = plan.needed(plan.ends(Selection((model,), (target,))))
            cell = build_runs.cell(root, found, f"{model}@{target}", needed)
            why = "no weights to check" if splats else ""
            if target in settings.unrunnable:
                why = "cannot run here"
            cells[model, target] = replace(cell, unchecked=why)
    place = root / REPORT
    place.parent.mkdir(exist_ok=True)
    text = page(models, targets, cells, found, build_runs.benchmarks(found))
    place.write_text(text, encoding="utf-8")
    print(f"{REPORT}: {len(found)} builds, {len(text) / 1e3:.0f} kB")
    return 0
