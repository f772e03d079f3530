"""Run `doit graph` and `doit report`: show builds as pictures."""

from __future__ import annotations

from dataclasses import replace

from ingot.cli.commands import Call
from ingot.errors import IngotError, counted

REPORT = "build/report.html"


def graph(call: Call) -> int:
    """Draw the actions of a build as SVG; print where the picture is."""
    from ingot.cli.tasks import choose_actions
    from ingot.engine.task_records import Records
    from ingot.project.catalogue import read, requested_models
    from ingot.project.selection import select
    from ingot.report.action_graph import Ended, picture

    root, variables = call.root, dict(call.variables)
    catalogue = read(root, requested_models(variables, call.words))
    selection = select(catalogue, variables)
    needed = catalogue.plan.needed(choose_actions(catalogue.plan, selection, call))
    if not needed:
        reasons = (f"{name} is left out: {why}" for name, why in selection.skipped)
        raise IngotError("nothing is selected to draw", "\n  ".join(reasons))
    actions = tuple(a for a in catalogue.plan.actions if a.task in needed)
    records = Records(root / "build/.ingot/records.sqlite")
    ended = {
        task: Ended(record.source, record.wall_ms)
        for task in needed
        if (record := records.get(task)) is not None
    }
    models, targets = ",".join(selection.models), ",".join(selection.targets)
    name = " ".join(call.words) or f"{models}@{targets}"
    file = "".join(c if c.isalnum() or c in "-_@.," else "-" for c in name)
    path = root / "build" / f"graph-{file}.svg"
    path.parent.mkdir(exist_ok=True)
    path.write_text(picture(name, actions, ended), encoding="utf-8")
    print(f"{path.relative_to(root)}: {counted(len(actions), 'action')}")
    return 0


def report(call: Call) -> int:
    """Write the builds of this checkout as a page; print where it is."""
    from ingot.project.catalogue import Selection, read
    from ingot.report import build_runs
    from ingot.report.page import page

    root = call.root
    catalogue = read(root)
    settings, plan = catalogue.settings, catalogue.plan
    models, targets = list(settings.models), list(settings.targets)
    found = build_runs.read(root)
    cells = {}
    for model in models:
        splats = plan.compiled_only(Selection((model,), ()))
        weights = catalogue.models[model].weights
        for target in targets:
            needed = plan.needed(plan.ends(Selection((model,), (target,))))
            cell = build_runs.cell(root, found, f"{model}@{target}", needed)
            why = "no weights to check" if splats else ""
            if target in settings.unrunnable:
                why = "cannot run here"
            cells[model, target] = replace(cell, unchecked=why, weights=weights)
    path = root / REPORT
    path.parent.mkdir(exist_ok=True)
    text = page(models, targets, cells, found, build_runs.benchmarks(found))
    path.write_text(text, encoding="utf-8")
    print(f"{REPORT}: {counted(len(found), 'build')}, {len(text) / 1e3:.0f} kB")
    return 0
