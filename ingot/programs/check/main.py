"""Judge the comparisons of all parts of a model: write the report, or fail.

A failing check fails the build; what it printed is kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ingot.checks.compare import LEVELS, Row, explain, row_json, summary, table
from ingot.checks.levels import first_blocks
from ingot.codec import from_json
from ingot.model.graph import Graph
from ingot.programs.check.spec import CheckSpec

SCHEMA = "ingot.check.v1"


def main() -> None:
    """Run the specification that `argv[1]` names; exit with 1 where a row failed."""
    specification = from_json(CheckSpec, Path(sys.argv[1]).read_bytes())
    rows = read_rows(specification.parts)
    report = report_json(specification, rows)
    printed = report_text(specification, rows)
    text = json.dumps(report, indent=1, sort_keys=True) + "\n"
    Path("check.json").write_text(text, encoding="utf-8")
    Path("check.txt").write_text(printed + "\n", encoding="utf-8")
    print(printed)
    if not report["passed"]:
        raise SystemExit(1)


def read_rows(parts: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows of all parts, level by level."""
    texts = (Path(path).read_bytes() for path in parts)
    rows = [row for text in texts for row in from_json(tuple[Row, ...], text)]
    return tuple(sorted(rows, key=lambda row: LEVELS.index(row.place.level)))


def report_json(specification: CheckSpec, rows: tuple[Row, ...]) -> dict[str, Any]:
    """Return the report. It holds no time: equal artifacts have equal reports."""
    return {
        "schema": SCHEMA,
        "model": specification.model,
        "target": specification.target,
        "device": specification.device,
        "emulated": specification.emulated,
        "passed": all(row.passed for row in rows),
        "levels": summary(rows),
        "rows": [row_json(row) for row in rows],
    }


def report_text(specification: CheckSpec, rows: tuple[Row, ...]) -> str:
    """Return what people read: one line per level, then what is wrong first."""
    lines = [f"{specification.task}: {len(rows)} comparisons", table(rows)]
    if not all(row.passed for row in rows):
        blocks = first_blocks(from_json(Graph, Path("graph.json").read_bytes()))
        lines.append(explain(specification.task, rows, blocks))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
