"""Compare the results of a piece of a model on a target with the oracle's.

All calls run the target's own module. A difference beyond the tolerance is a row like
any other, and does not fail this program; the check fails after it has all rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from ingot.checks.archive_parameters import read_parameters
from ingot.checks.compare import Row, rounded
from ingot.checks.oracle_runs import Recorded
from ingot.checks.pieces import Piece, block_rows, chain_rows, component_rows
from ingot.codec import from_json, to_json
from ingot.errors import IngotError
from ingot.model.graph import Graph
from ingot.model.oracle import load_oracles
from ingot.programs.compare_piece.spec import ROWS, ComparePieceSpec, Comparison
from ingot.runtime.invoke import Module

ARCHIVE = Path("model.irpa")


def main() -> None:
    """Run the comparisons of the specification in `argv[1]`."""
    specification = from_json(ComparePieceSpec, Path(sys.argv[1]).read_bytes())
    try:
        rows = tuple(map(rounded, compared(specification)))
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None
    Path(ROWS).write_text(to_json(rows, indent=True) + "\n", encoding="utf-8")


def compared(specification: ComparePieceSpec) -> Iterator[Row]:
    """Yield the rows of the piece.

    Raises: IngotError if a call fails.
    """
    graph = from_json(Graph, Path("graph.json").read_bytes())
    parameters = read_parameters(graph, ARCHIVE) if graph.parameters else {}
    oracles = load_oracles(graph)
    for item in specification.comparisons:
        piece = Piece(graph, oracles, parameters, specification.runner, item.tolerance)
        yield from _rows(piece, item, specification.scope)


def _rows(piece: Piece, item: Comparison, scope: str) -> Iterator[Row]:
    # The parameters of a component are arguments.
    is_component = item.level == "component"
    modules = {
        name: Module(Path(path), None if is_component else ARCHIVE, scope)
        for name, path in item.modules.items()
    }
    recorded = [Recorded(Path(path)) for path in item.inputs]
    if is_component:
        return component_rows(piece, modules[""], recorded)
    if item.level == "block":
        return block_rows(piece, modules[""], recorded[0])
    return chain_rows(piece, modules, recorded[0])


if __name__ == "__main__":
    main()
