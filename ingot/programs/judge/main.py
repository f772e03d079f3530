"""Compare the oracle of a model with golden outputs, where targets round its weights.

A difference beyond the tolerance is a row like any other, and does not fail this
program; the check of each target fails after it has all rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingot.codec import from_json, to_json
from ingot.errors import IngotError
from ingot.programs.judge.spec import ROWS, JudgeSpec


def main() -> None:
    """Write the rows of the specification in `argv[1]`."""
    from ingot.checks.archive_parameters import read_parameters
    from ingot.checks.compare import rounded
    from ingot.checks.golden_files import read_logits
    from ingot.checks.oracle_judge import judge_rows
    from ingot.model.graph import Graph
    from ingot.model.oracle import load_oracles

    specification = from_json(JudgeSpec, Path(sys.argv[1]).read_bytes())
    graph = from_json(Graph, Path("graph.json").read_bytes())
    parameters = read_parameters(graph, Path("model.irpa"))
    golden = read_logits(Path("golden.npz"))
    try:
        rows = judge_rows(graph, load_oracles(graph), parameters, golden)
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None
    text = to_json(tuple(map(rounded, rows)), indent=True) + "\n"
    Path(ROWS).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
