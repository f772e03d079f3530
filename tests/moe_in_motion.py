"""Run sequences that come and go in one cache of a built mixture; return the error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ingot.bundles.batch import Batch
from ingot.checks.archive_parameters import read_parameters
from ingot.model.component import Components
from ingot.model.graph import Graph
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles, run_entry_point
from ingot.model.select_kernels import select_kernels
from ingot.model.target import read_target
from ingot.runtime.invoke import Module
from ingot.runtime.session import open_session
from tests.project import ROOT

# Tokens of each sequence: less than a block, whole blocks, and others.
LENGTHS = (9, 36, 21, 36)
# Block 0 and those of three sequences: the fourth has what the second left.
N_BLOCK = 8


def texts(n_vocab: int) -> list[tuple[int, ...]]:
    """Random tokens of each sequence."""
    rng = np.random.default_rng(4)
    return [tuple(rng.integers(0, n_vocab, length).tolist()) for length in LENGTHS]


def in_motion(batch: Batch, rows: list[tuple[int, ...]]) -> dict[tuple[int, int], Any]:
    """Logits by (sequence, tokens so far): prefill of some while others decode."""
    found: dict[tuple[int, int], Any] = {}
    held = dict.fromkeys(range(len(rows)), 0)

    def note(made: dict[int, Any], count: dict[int, int]) -> None:
        for sequence, logits in made.items():
            held[sequence] += count[sequence]
            found[sequence, held[sequence]] = logits

    def prefill(count: dict[int, int]) -> None:
        tokens = {s: rows[s][held[s] : held[s] + n] for s, n in count.items()}
        note(batch.prefill(tokens), count)

    def decode(*sequences: int) -> None:
        tokens = {s: rows[s][held[s]] for s in sequences}
        note(batch.decode(tokens), dict.fromkeys(sequences, 1))

    prefill({0: 6, 1: 32})
    decode(1, 0)
    prefill({2: 20})  # while the others decode
    decode(0, 2, 1)
    left = batch.pool.table((1,))
    batch.end(1)
    prefill({3: 33})
    assert np.isin(left, batch.pool.table((3,))).all(), "no block was used again"
    decode(3, 0)
    return found


def alone(graph: Graph, irpa: Path, prefixes: list[tuple[int, ...]]) -> Any:
    """What the oracle says after each of these, each in blocks of its own.

    Shapes: -> [prefix, n_vocab].
    """
    prefill = next(item for item in graph.entry_points if item.name == "prefill")
    ports = {port.name: port for port in prefill.inputs}
    size = int(ports["cache_k"].type.shape[2])
    longest = max(map(len, prefixes))
    each = -(-longest // size)
    blocks = 1 + len(prefixes) * each
    tokens = np.zeros((len(prefixes), longest), np.int32)
    for row, prefix in zip(tokens, prefixes, strict=True):
        row[: len(prefix)] = prefix
    given = {
        "tokens": tokens,
        "start": np.zeros(len(prefixes), np.int32),
        "last_index": np.array([len(prefix) - 1 for prefix in prefixes], np.int32),
        "block_table": np.arange(1, blocks, dtype=np.int32).reshape(-1, each),
    }
    inputs = tuple(
        given[port.role]
        if port.role in given
        else np.zeros(
            [blocks if dim == "n_block" else int(dim) for dim in port.type.shape],
            np.float32,
        )
        for port in prefill.inputs
    )
    weights = read_parameters(graph, irpa)
    made, _ = run_entry_point(graph, load_oracles(graph), prefill, inputs, weights)
    return made[0][:, 0]


def compare_in_motion(folder: Path, model: str, target: str) -> float:
    """Return the largest error, as a share of the logits' range.

    `folder` is the model's, with what was built for the target.
    """
    manifest = read_manifest(ROOT / f"models/{model}.yaml", ROOT)
    found = read_target(ROOT / f"targets/{target}.yaml", ROOT)
    dims, stored = dict(manifest.dims), manifest.weights.stored
    graph = select_kernels(manifest.graph, stored, found.layout, Components(ROOT))
    irpa = folder / f"weights/{found.layout.name}/model.irpa"
    session = open_session(found.runner, Module(folder / target / "model.vmfb", irpa))
    # As many positions in seven blocks, whatever their size.
    n_block = 1 + (N_BLOCK - 1) * 16 // dims["block_size"]
    batch = Batch(session, graph.entry_points, n_block, dims["n_ctx"])
    rows = texts(dims["n_vocab"])
    made = in_motion(batch, rows)
    expected = alone(graph, irpa, [rows[s][:length] for s, length in made])
    errors = np.abs(np.stack(list(made.values())) - expected).max()
    return float(errors / np.ptp(expected))
