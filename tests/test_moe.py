"""Test a mixture of experts over a paged cache, from its manifest to a batch."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.bundles.batch import Batch
from ingot.checks.archive_parameters import read_parameters
from ingot.checks.cases import entry_inputs, make_case
from ingot.model.component import Components
from ingot.model.graph import EntryPoint, Graph
from ingot.model.layout import read_layout
from ingot.model.manifest import read_manifest
from ingot.model.oracle import load_oracles, run_entry_point
from ingot.model.select_kernels import select_kernels
from ingot.model.target import read_target
from ingot.model.yaml_nodes import format_errors
from ingot.runtime.invoke import Call, Module, call
from ingot.runtime.session import Session, open_session
from tests import scratch
from tests.copies import copies
from tests.project import ROOT, Project, builds, edit

pytestmark = builds("toy-moe")

MODEL, N_VOCAB, N_CTX, BLOCK_SIZE = "toy-moe", 256, 128, 8
TARGET = read_target(ROOT / "targets/x86_64.yaml", ROOT)


@pytest.fixture(scope="module")
def graph() -> Graph:
    """The graph as the target has it."""
    manifest = read_manifest(ROOT / f"models/{MODEL}.yaml", ROOT)
    layout = read_layout(ROOT / "targets/layouts/packed_n8.yaml", ROOT)
    return select_kernels(
        manifest.graph, manifest.weights.stored, layout, Components(ROOT)
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the model, checked on x86_64."""
    base = tmp_path_factory.mktemp("moe")
    project = Project.create(base / "checkout", models=(MODEL,))
    run = project.doit("check", f"model={MODEL}", "target=x86_64")
    assert run.code == 0, run.err
    return project.root / "build" / MODEL


@pytest.fixture(scope="module")
def session(built: Path) -> Session:
    return open_session(TARGET.runner, module(built))


def module(built: Path) -> Module:
    return Module(built / "x86_64/model.vmfb", next(built.rglob("*.irpa")))


def entry(graph: Graph, name: str) -> EntryPoint:
    return next(item for item in graph.entry_points if item.name == name)


def test_a_mixture_is_right_at_every_level(built: Path) -> None:
    report = json.loads((built / "x86_64/check.json").read_text())
    assert set(report["levels"]) == {"component", "block", "propagated", "model"}
    assert report["passed"]
    rows = report["rows"]
    names = {row["name"].partition("__")[0] for row in rows}
    assert {
        "mul_mat_id_packed",
        "mul_mat_id_per_expert_x_packed",
        "expert_router",
    } <= names
    whole = [row for row in rows if row["level"] == "model"]
    values = {row["value"] for row in whole}
    assert values == {"best token", "logits", "cache_k", "cache_v"}
    assert {row["entry_point"] for row in whole} == {"prefill", "decode"}


def test_experts_are_stored_in_tiles_of_one_expert_each(graph: Graph) -> None:
    found = {item.name: item for item in graph.parameters}
    down = found["blk.1.ffn_down_exps.weight"]
    # Of 4 experts each [64, 128].
    assert str(down.type) == "f32[4, 8, 128, 8]"
    assert down.packing
    assert down.packing.shape == (4, 64, 128)


def test_no_pool_and_no_matrix_is_copied(
    built: Path, graph: Graph, tmp_path: Path
) -> None:
    linked = built / "linked/packed_n8/linked.mlir"
    made = scratch.compiled(
        TARGET, linked, tmp_path, "streams.mlir", ("--compile-to=stream",)
    )
    text = made.read_text(encoding="utf-8")
    assert copies(text) == []
    kernels = kernels_of(text, "decode")
    assert len([name for name in kernels if "scatter" in name]) == 2
    # Matrices of the chosen experts are read where they are: gate, up and down.
    reads = [name for name in kernels if "gather" in name and "generic" in name]
    assert (len(reads), len(set(reads))) == (3, 2)
    # The blocks of a table, looked up and written: keys and values, of prompts alone.
    # Values also read where the sequence begins: nothing behind it is looked up.
    copying = re.compile("elementwise_broadcast_.*_i32(xi32)?xf32")
    found = {
        entry: len(list(filter(copying.search, kernels_of(text, entry))))
        for entry in ("prefill", "decode")
    }
    assert found == {"prefill": 2, "decode": 0}


def kernels_of(text: str, entry: str) -> list[str]:
    """Return the kernels that a layer calls, in order."""
    start = text.index(f"util.func private @{entry}.layer(")
    layer = text[start : text.index("util.func", start + 1)]
    return re.findall(r"dispatch @\w+\.layer_dispatch_\d+::@(\S+?)[\[({]", layer)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    ids=["table", "small pool", "large pool", "experts"],
    argvalues=[
        (
            "n_block_seq: {min: 1, max: 16}",
            "n_block_seq: {min: 1, max: 17}",
            "25:30: dynamic.n_block_seq.max: longer than the context, n_ctx = 128,"
            " found blocks for 136",
        ),
        (
            "n_block: {min: 2, max: 257}",
            "n_block: {min: 2, max: 16}",
            "24:26: dynamic.n_block.max: no pool holds the longest sequence; expected"
            " at least 17, found 16",
        ),
        (
            "n_block: {min: 2, max: 257}",
            "n_block: {min: 32, max: 257}",
            "24:18: dynamic.n_block.min: a short sequence has no pool; expected at"
            " most 2, found 32",
        ),
        (
            "n_expert_used: 2",
            "n_expert_used: 5",
            "15:18: dims.n_expert_used: more than there are; expected at most"
            " n_expert = 4, found 5",
        ),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(
    old: str, new: str, words: str, tmp_path: Path
) -> None:
    root = Project.create(tmp_path / "checkout", models=(MODEL,)).root
    path = root / f"models/{MODEL}.yaml"
    edit(path, old, new)
    with pytest.raises(ExceptionGroup) as group:
        read_manifest(path, root)
    assert format_errors(group.value) == f"models/toy-moe.yaml:{words}"


def exchanged(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with those of both layers exchanged."""
    other = {"blk.0.": "blk.1.", "blk.1.": "blk.0."}
    return {other.get(k[:6], k[:6]) + k[6:]: value for k, value in parameters.items()}


def test_every_layer_reads_its_own_parameters(
    built: Path, graph: Graph, tmp_path: Path
) -> None:
    from iree.runtime import ParameterIndex

    irpa = module(built).irpa
    assert irpa is not None
    parameters = exchanged(read_parameters(graph, irpa))
    index = ParameterIndex()
    for name, value in parameters.items():
        index.add_buffer(name, value.tobytes())
    index.create_archive_file(str(tmp_path / "exchanged.irpa"))
    prefill = entry(graph, "prefill")
    inputs = entry_inputs(graph, prefill, make_case(graph, prefill, 2, 11))
    oracles = load_oracles(graph)
    results = []
    for weights, irpa in (
        (exchanged(parameters), module(built).irpa),
        (parameters, tmp_path / "exchanged.irpa"),
    ):
        expected, _ = run_entry_point(graph, oracles, prefill, inputs, weights)
        what = Call("prefill", inputs, (), 3)
        found = call(TARGET.runner, replace(module(built), irpa=irpa), what)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
        results.append(expected[0])
    assert np.abs(results[0] - results[1]).max() > 0.1


def prompts(count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Sequences of random tokens: of one, of whole blocks, and of other lengths."""
    rng = np.random.default_rng(seed)
    lengths = [1, BLOCK_SIZE, 2 * BLOCK_SIZE + 1, 30, 13][:count]
    return [tuple(rng.integers(0, N_VOCAB, length).tolist()) for length in lengths]


def alone(session: Session, graph: Graph, prompt: tuple[int, ...], steps: int) -> Any:
    """Logits after a prompt and after each greedy token.

    Shapes: -> [steps + 1, n_vocab].
    """
    batch = Batch(session, graph.entry_points, 1 + N_CTX // BLOCK_SIZE, N_CTX)
    logits = [batch.prefill({0: prompt})[0]]
    for _ in range(steps):
        logits.append(batch.decode({0: int(logits[-1].argmax())})[0])
    return np.stack(logits)


def test_a_batch_in_motion_says_what_each_sequence_says_alone(
    session: Session, graph: Graph
) -> None:
    texts = dict(enumerate(prompts(5)))
    steps = 5
    # Blocks for three sequences at most: they are freed, and used again.
    batch = Batch(session, graph.entry_points, 14, N_CTX)
    found: dict[int, list[Any]] = {}

    def begin(*sequences: int) -> None:
        made = batch.prefill({item: texts[item] for item in sequences})
        found.update({item: [logits] for item, logits in made.items()})

    def go_on(*sequences: int) -> None:
        tokens = {item: int(found[item][-1].argmax()) for item in sequences}
        for item, logits in batch.decode(tokens).items():
            found[item].append(logits)

    begin(0, 1)  # one padded batch of lengths 1 and 8
    go_on(0, 1)
    begin(2)  # while the others decode
    go_on(1, 2, 0)
    go_on(2, 0, 1)
    for _ in range(2):
        go_on(0, 1)
    left = batch.pool.table((1,))
    batch.end(1)
    begin(3)
    assert np.isin(left, batch.pool.table((3,))).all(), "no block was used again"
    for _ in range(3):
        go_on(3, 2)
    batch.end(0)
    batch.end(2)
    begin(4)
    for _ in range(2):
        go_on(4, 3)
    for sequence, logits in found.items():
        expected = alone(session, graph, texts[sequence], steps)[: len(logits)]
        np.testing.assert_allclose(np.stack(logits), expected, atol=2e-5)
    assert [len(found[item]) for item in range(5)] == [6, 6, 6, 6, 3]


def test_a_prompt_in_parts_is_the_prompt(session: Session, graph: Graph) -> None:
    prompt = prompts(4)[3]
    batch = Batch(session, graph.entry_points, 17, N_CTX)
    batch.prefill({7: prompt[:11]})
    logits = batch.prefill({7: prompt[11:]})[7]
    np.testing.assert_allclose(logits, alone(session, graph, prompt, 0)[0], atol=2e-5)


def test_padding_behind_the_context_is_computed_apart(
    session: Session, graph: Graph
) -> None:
    long, short = prompts(4)[3] * 4, prompts(3)[2]
    batch = Batch(session, graph.entry_points, 30, N_CTX)
    for part in (long[:60], long[60:]):
        batch.prefill({0: part})
    made = batch.prefill({0: long[:2], 1: short})
    expected = alone(session, graph, short, 0)[0]
    np.testing.assert_allclose(made[1], expected, atol=2e-5)
    whole = Batch(session, graph.entry_points, 30, N_CTX)
    for part in (long[:60], long[60:] + long[:2]):
        last = whole.prefill({0: part})
    np.testing.assert_allclose(made[0], last[0], atol=2e-5)
