"""Report the comparisons of all pieces of a model, and fail if one of them failed.

A failed check fails the build, and its output is stored with the failed action.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, TypeAlias

from ingot.checks.compare import LEVELS, Row, explain, row_json, summary, table
from ingot.codec import from_json
from ingot.errors import counted
from ingot.model.graph import Graph
from ingot.programs.check.spec import CheckSpec

SCHEMA = "ingot.check.v1"
QUALITY = "quality.json"
Quality: TypeAlias = dict[str, Any] | None

TOKENIZER_JUDGE = "the rules of its file, in plain Python"
NO_JUDGE = "no independent judge"
"""What bundles and reports say about a model that only this project has computed."""


def main() -> None:
    """Run the check of the specification in `argv[1]`; exit with 1 if a row failed."""
    specification = from_json(CheckSpec, Path(sys.argv[1]).read_bytes())
    graph = from_json(Graph, Path("graph.json").read_bytes())
    rows = read_rows(specification.pieces, graph)
    quality = read_quality()
    report = report_json(specification, rows, quality)
    printed = report_text(specification, rows, graph, quality)
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


def read_quality() -> Quality:
    """Return what rounded weights cost, or None if it was not measured."""
    path = Path(QUALITY)
    if not path.is_file():
        return None
    loaded: Quality = json.loads(path.read_bytes())
    return loaded


def failed_gates(specification: CheckSpec, quality: Quality) -> list[str]:
    """Return a line for each gate of the manifest that the quality does not pass."""
    if specification.gates and quality is None:
        reason = specification.unmeasured or "no weight is rounded"
        return [f"check.quality: not measured, because {reason}"]
    failed = []
    for gate, limit in specification.gates.items():
        bound, _, name = gate.partition("_")
        found = (quality or {})[name]
        if found > limit if bound == "max" else found < limit:
            sign = "at most" if bound == "max" else "at least"
            failed.append(f"check.quality.{gate}: expected {sign} {limit}, got {found}")
    return failed


def tokenizer_judge(specification: CheckSpec, rows: tuple[Row, ...]) -> str | None:
    """Return what judged the ids of texts; None of a model without a tokenizer."""
    if not specification.has_tokenizer:
        return None
    judged = any(
        row.place.entry_point == "tokenizer" and row.place.value == "ids"
        for row in rows
    )
    return TOKENIZER_JUDGE if judged else NO_JUDGE


def quality_line(specification: CheckSpec, quality: Quality) -> str:
    """Return what is known of the stored weights' quality in one line, or ""."""
    if quality is None:
        if specification.is_quantised:
            return (
                "quality: the source is quantised already, and its blocks are kept;"
                " doit check-quality measures their perplexity"
            )
        reason = specification.unmeasured if specification.is_rounded else None
        return f"quality: not measured, because {reason}" if reason else ""
    by = "" if quality["computed_by"] == "target" else ", computed by the oracle"
    of = ""
    if quality["source_quantised"]:
        of = " with the same blocks: the source is quantised already"
    return (
        f"quality: perplexity {quality['perplexity']}, {quality['perplexity_ratio']}"
        f" times that of f32{of}; KL {quality['kl']} nats; top-1"
        f" {quality['top_1']:.2%}; {quality['tokens']} tokens{by}"
    )


def first_blocks(graph: Graph) -> dict[str, str]:
    """Return the first block, in the order of the model, that calls each instance."""
    found: dict[str, str] = {}
    for entry in graph.entry_points:
        for block in entry.blocks:
            for use in block.calls:
                found.setdefault(use.instance, f"{block.name} (node {use.name})")
    return found


def report_json(
    specification: CheckSpec, rows: tuple[Row, ...], quality: Quality = None
) -> dict[str, Any]:
    """Return the report, without times: equal artifacts have equal reports."""
    return {
        "schema": SCHEMA,
        "model": specification.model,
        "target": specification.target,
        "device": specification.device,
        "emulated": specification.emulated,
        "judge": specification.judge or NO_JUDGE,
        "tokenizer_judge": tokenizer_judge(specification, rows),
        "passed": all(row.passed for row in rows)
        and not failed_gates(specification, quality),
        "quality": quality,
        "levels": summary(rows),
        "rows": [row_json(row) for row in rows],
    }


def report_text(
    specification: CheckSpec,
    rows: tuple[Row, ...],
    graph: Graph,
    quality: Quality = None,
) -> str:
    """Return the text to print: one line per level, then the first error."""
    head = f"{specification.task}: {counted(len(rows), 'comparison')}"
    judge = specification.judge
    judged = f"judged by {judge}" if judge else NO_JUDGE
    lines = [f"{head}, {judged}", table(rows)]
    if tokenizer_judge(specification, rows) == NO_JUDGE:
        lines.append("no independent judge of the tokenizer: its ids are its own")
    lines += filter(None, [quality_line(specification, quality)])
    if not all(row.passed for row in rows):
        lines.append(explain(specification.task, rows, first_blocks(graph)))
    failed = failed_gates(specification, quality)
    lines += [f"{specification.task}: {text}" for text in failed]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
