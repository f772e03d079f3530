"""Report the comparisons of all pieces of a model, and fail if one of them failed.

A failed check fails the build, and its output is stored with the failed action.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ingot.checks.compare import LEVELS, Row, explain, row_json, summary, table
from ingot.codec import from_json
from ingot.errors import counted
from ingot.model.graph import Graph
from ingot.programs.check.spec import CheckSpec

SCHEMA = "ingot.check.v1"

NO_JUDGE = "no independent judge"
"""What bundles and reports say about a model that only this project has computed."""


def main() -> None:
    """Run the check of the specification in `argv[1]`; exit with 1 if a row failed."""
    specification = from_json(CheckSpec, Path(sys.argv[1]).read_bytes())
    graph = from_json(Graph, Path("graph.json").read_bytes())
    rows = read_rows(specification.pieces, graph)
    report = report_json(specification, rows)
    printed = report_text(specification, rows, graph)
    text = json.dumps(report, indent=1, sort_keys=True) + "\n"
    Path("check.json").write_text(text, encoding="utf-8")
    Path("check.txt").write_text(printed + "\n", encoding="utf-8")
    print(printed)
    if not report["passed"]:
        raise SystemExit(1)


def read_rows(pieces: tuple[str, ...], graph: Graph) -> tuple[Row, ...]:
    """Return the rows of all pieces: level by level, blocks as in the model."""
    texts = (Path(path).read_bytes() for path in pieces)
    rows = [row for text in texts for row in from_json(tuple[Row, ...], text)]
    pairs = [(entry.name, x.name) for entry in graph.entry_points for x in entry.blocks]
    number = {pair: index for index, pair in enumerate(pairs)}

    def order(row: Row) -> tuple[int, int]:
        place = row.place
        level = LEVELS.index(place.level)
        # The rows of a chain are in order already, run by run.
        is_block = place.level == "block"
        return level, number[place.entry_point, place.name] if is_block else 0

    return tuple(sorted(rows, key=order))


def first_blocks(graph: Graph) -> dict[str, str]:
    """Return the first block, in the order of the model, that calls each instance."""
    found: dict[str, str] = {}
    for entry in graph.entry_points:
        for block in entry.blocks:
            for use in block.calls:
                found.setdefault(use.instance, f"{block.name} (node {use.name})")
    return found


def report_json(specification: CheckSpec, rows: tuple[Row, ...]) -> dict[str, Any]:
    """Return the report, without times: equal artifacts have equal reports."""
    return {
        "schema": SCHEMA,
        "model": specification.model,
        "target": specification.target,
        "device": specification.device,
        "emulated": specification.emulated,
        "judge": specification.judge or NO_JUDGE,
        "passed": all(row.passed for row in rows),
        "levels": summary(rows),
        "rows": [row_json(row) for row in rows],
    }


def report_text(specification: CheckSpec, rows: tuple[Row, ...], graph: Graph) -> str:
    """Return the text to print: one line per level, then the first error."""
    head = f"{specification.task}: {counted(len(rows), 'comparison')}"
    judge = specification.judge
    judged = f"judged by {judge}" if judge else NO_JUDGE
    lines = [f"{head}, {judged}", table(rows)]
    if not all(row.passed for row in rows):
        lines.append(explain(specification.task, rows, first_blocks(graph)))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
