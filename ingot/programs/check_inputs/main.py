"""Record what the oracle of a model computes: the inputs of its checks.

They are the same for every target that stores the weights alike, so the oracle runs
once, and no edit of a component runs it again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ingot.checks.archive_parameters import read_parameters
from ingot.checks.oracle_runs import record_blocks, record_components
from ingot.codec import from_json
from ingot.errors import IngotError
from ingot.model.graph import Graph
from ingot.model.oracle import load_oracles
from ingot.programs.check_inputs.spec import CheckInputsSpec


def main() -> None:
    """Run the specification that `argv[1]` names."""
    specification = from_json(CheckInputsSpec, Path(sys.argv[1]).read_bytes())
    graph = from_json(Graph, Path("graph.json").read_bytes())
    emulated, here = specification.emulated, Path()
    try:
        oracles = load_oracles(graph)
        parameters = read_parameters(graph, Path("model.irpa"))
        record_components(graph, oracles, parameters, emulated, here)
        record_blocks(graph, oracles, parameters, specification.forms, emulated, here)
    except IngotError as error:
        raise SystemExit(f"{specification.task}: {error}") from None


if __name__ == "__main__":
    main()
