"""Test a decoder from its two files to a program, with caches updated in place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.emit.modules import main_module
from ingot.errors import IngotError
from ingot.model.graph import Block, EntryPoint, Graph
from ingot.model.graph import Call as Use
from ingot.model.target import read_target
from ingot.runtime.invoke import Call, Module, call
from ingot.weights.rope_table import RopeTable
from tests import scratch
from tests.copies import copies
from tests.project import ROOT, Project
from tests.toy_decoder import BUILDS, MODEL, place, read

pytestmark = BUILDS

TARGET = read_target(ROOT / "targets/x86_64.yaml", ROOT)
LAYERS, CTX, N_EMBD_KV = 3, 12, 8
# A cache that is put where the caller has it: the line, and the place.
PUT = re.compile(r"(hal\.tensor\.alias .* to )(%\w+)")
# Of 8 tokens each; a decoder with a window of 3 has long forgotten the first.
TOKENS = np.random.default_rng(1).integers(0, 48, (2, 8)).astype(np.int32)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    return read(tmp_path_factory.mktemp("toy-decoder"))


def entries(graph: Graph) -> tuple[EntryPoint, EntryPoint]:
    """Prefill and decode."""
    prefill, decode = graph.entry_points
    assert (prefill.name, decode.name) == ("prefill", "decode")
    return prefill, decode


def layers(entry: EntryPoint) -> list[Block]:
    return [block for block in entry.blocks if block.name.startswith("layer.")]


def use(block: Block, name: str) -> Use:
    return next(item for item in block.calls if item.name == name)


def test_layers_take_their_variants_in_turn(graph: Graph) -> None:
    for entry in entries(graph):
        found = [
            (block.name, block.kind, *use(block, "rope_q").operands[1:2])
            for block in layers(entry)
        ]
        assert found == [
            ("layer.0", "layer.local", "param:rope_local.table"),
            ("layer.1", "layer.global", "param:rope_global.table"),
            ("layer.2", "layer.local", "param:rope_local.table"),
        ]


def test_a_layer_is_told_its_number_and_its_window(graph: Graph) -> None:
    for entry in entries(graph):
        calls = [use(block, "attn") for block in layers(entry)]
        assert [item.scalars for item in calls] == [
            (0, 3, 0.5),
            (1, 32, 0.5),
            (2, 3, 0.5),
        ]
        assert {item.layered for item in calls} == {(0,)}
        kept = [use(block, "keys") for block in layers(entry)]
        assert [item.scalars for item in kept] == [(0,), (1,), (2,)]


def test_decode_has_instances_of_its_own_with_one_position(graph: Graph) -> None:
    prefill, decode = (
        {item.instance for block in layers(entry) for item in block.calls}
        for entry in entries(graph)
    )
    assert not prefill & decode
    assert all("seq_1" in name for name in decode)
    assert not any("seq" in name for name in prefill)
    tokens, start, cache_k, _ = entries(graph)[1].inputs
    assert str(tokens.type) == "i32[batch, 1]"
    assert str(start.type) == "i32[batch]"
    assert str(cache_k.type) == "f32[3, batch, ctx, 8]"


def test_a_tied_parameter_is_the_one_that_serves(graph: Graph, tmp_path: Path) -> None:
    for entry in entries(graph):
        logits = use(entry.blocks[-1], "logits")
        assert logits.operands == ("hidden", "param:token_embd.weight")
    assert "output.weight" not in [item.name for item in graph.parameters]
    untied = read(tmp_path, ("  tied: [output.weight]\n", ""))
    assert "output.weight" in [item.name for item in untied.parameters]
    logits = use(untied.entry_points[0].blocks[-1], "logits")
    assert logits.operands == ("hidden", "param:output.weight")


def test_tables_are_computed_and_conventions_belong_to_the_source(
    graph: Graph, tmp_path: Path
) -> None:
    found = {item.name: item for item in graph.parameters}
    assert found["rope_global.table"].table == RopeTable(10000.0)
    assert found["rope_local.table"].table == RopeTable(100.0)
    assert found["blk.2.attn_norm.weight"].offset == 1.0
    assert found["blk.2.attn_q.weight"].interleaved_heads is None
    gguf = read(tmp_path, ("naming: hf", "naming: gguf"))
    found = {item.name: item for item in gguf.parameters}
    assert found["blk.2.attn_norm.weight"].offset == 0.0
    assert found["blk.2.attn_q.weight"].interleaved_heads == 4
    assert found["blk.2.attn_k.weight"].interleaved_heads == 2
    assert found["blk.2.attn_v.weight"].interleaved_heads is None


def test_the_caches_that_are_given_are_those_that_are_returned(graph: Graph) -> None:
    text = main_module(graph)
    body = text[text.index("@decode(\n") :]
    head = body[: body.index(") -> (")]
    assert re.findall(r"%(\w+): !hal\.buffer_view", head) == ["cache_k", "cache_v"]
    last = re.findall(r"util\.return .*", body)[0]
    assert last.endswith(
        ", %cache_k, %cache_v : tensor<?x1x48xf32>, !hal.buffer_view, !hal.buffer_view"
    )
    assert [port.updates for port in entries(graph)[1].outputs] == [
        "",
        "cache_k",
        "cache_v",
    ]


def test_all_layers_are_one_function(graph: Graph) -> None:
    text = main_module(graph)
    for name in ("prefill", "decode"):
        assert text.count(f"util.func private @{name}.layer(") == 1
        assert text.count(f"util.call @{name}.layer(") == LAYERS
    assert "%layer.2.attn.layer = arith.constant 2 : i32" in text
    assert "%layer.2.attn.window = arith.constant 3 : i32" in text


def test_a_trace_tells_of_hidden_states_and_of_no_cache(graph: Graph) -> None:
    prefill, decode = entries(graph)
    for entry in (prefill, decode):
        made = entry.traced()
        assert {made[block.name] for block in layers(entry)} == {("hidden",)}
        assert set(entry.held().values()) == {
            port.updates for port in entry.outputs if port.updates
        }


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a build for x86_64; it is not timed, nothing is to be benched."""
    base = tmp_path_factory.mktemp("decoder")
    project = Project.create(base / "checkout")
    place(project.root)
    project.build(f"model={MODEL}", "target=x86_64")
    return project.root / "build" / MODEL


def test_a_build_is_right_at_every_level(built: Path) -> None:
    report = json.loads((built / "x86_64/check.json").read_text())
    assert set(report["levels"]) == {"component", "block", "propagated", "model"}
    assert report["passed"]
    rows = report["rows"]
    assert {row["entry_point"] for row in rows} == {"prefill", "decode"}
    whole = [row for row in rows if row["level"] == "model"]
    values = {row["value"] for row in whole}
    assert values == {"best token", "logits", "cache_k", "cache_v"}
    # Sequences that begin anywhere in the cache, and the longest.
    assert max(row["inputs"]["seq"] for row in whole) == 24
    assert all(row["inputs"]["ctx"] > row["inputs"]["seq"] for row in whole)
    assert whole[0]["tolerance_source"] == f"models/architectures/{MODEL}.yaml:9"


def streams(linked: str, graph: Graph, folder: Path) -> str:
    """What the target's compiler makes of a program: dispatches and copies."""
    (folder / "given.mlir").write_text(linked, encoding="utf-8")
    made = scratch.compiled(
        TARGET,
        folder / "given.mlir",
        folder / "compiled",
        "streams.mlir",
        ("--compile-to=stream",),
    )
    return made.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def linked(built: Path) -> str:
    path = built / f"linked/{TARGET.layout.name}/linked.mlir"
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def program(linked: str, graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> str:
    return streams(linked, graph, tmp_path_factory.mktemp("streams"))


def test_the_program_copies_no_cache(
    program: str, linked: str, graph: Graph, tmp_path: Path
) -> None:
    assert copies(program) == []
    # Were keys put where values are, and values where keys are, both would be copied.
    places = [found[2] for found in PUT.finditer(linked)]
    others = iter(places[number ^ 1] for number in range(4))
    exchanged = PUT.sub(lambda found: found[1] + next(others), linked)
    assert copies(streams(exchanged, graph, tmp_path)) == ["stream.cmd.copy"] * 4


def test_the_kernels_of_a_layer_are_there_once(program: str) -> None:
    for name in ("prefill", "decode"):
        start = program.index(f"util.func private @{name}.layer(")
        layer = program[start : program.index("util.func", start + 1)]
        kernels = re.findall(r"dispatch @\S+::@(\S+?)[\[({]", layer)
        # Keys and values; their forms differ, keys are turned in halves.
        assert len([item for item in kernels if "scatter" in item]) == 2
        # Queries and keys, weights and values: the two halves of heads are apart.
        products = [item for item in kernels if "matmul_like_2x" in item]
        assert (len(products), len(set(products))) == (2, 2)


def caches() -> tuple[Any, Any]:
    """Caches that hold anything: what was not written is not seen."""
    rng = np.random.default_rng(2)
    shape = (LAYERS, 2, CTX, N_EMBD_KV)
    return rng.normal(size=shape).astype("f4"), rng.normal(size=shape).astype("f4")


def run(built: Path, function: str, *tensors: Any) -> tuple[Any, ...]:
    """Logits and both caches of a call; integers are i32."""
    module = Module(built / "x86_64/model.vmfb", next(built.rglob("*.irpa")))
    given = tuple(
        np.asarray(item, "i4") if np.asarray(item).dtype.kind == "i" else item
        for item in tensors
    )
    return call(TARGET.runner, module, Call(function, given, (), 3))


def whole(built: Path, length: int) -> Any:
    """The logits after the first tokens, all at once. Shapes: -> [2, n_vocab]."""
    last = [length - 1] * 2
    return run(built, "prefill", TOKENS[:, :length], [0, 0], last, *caches())[0]


def test_decode_after_prefill_is_prefill_of_the_longer_sequence(built: Path) -> None:
    # The second sequence is shorter: decode writes over the padding that follows it.
    start = np.array([5, 3], np.int32)
    rows = np.arange(2)
    logits, *kept = run(built, "prefill", TOKENS[:, :5], [0, 0], start - 1, *caches())
    for _ in range(3):
        expected = np.stack(
            [whole(built, length)[row] for row, length in zip(rows, start, strict=True)]
        )
        np.testing.assert_allclose(logits, expected, atol=1e-6 * np.ptp(expected))
        logits, *kept = run(built, "decode", TOKENS[rows, start][:, None], start, *kept)
        start = start + 1
    _, *at_once = run(built, "prefill", TOKENS, [0, 0], [7, 7], *caches())
    np.testing.assert_allclose(kept[0][:, 0, :8], at_once[0][:, 0, :8], atol=1e-5)
    np.testing.assert_allclose(kept[1][:, 0, :8], at_once[1][:, 0, :8], atol=1e-5)
    # And nothing else was written.
    np.testing.assert_array_equal(kept[0][:, 0, 8:], caches()[0][:, 0, 8:])


def test_a_prefill_goes_on_where_another_ended(built: Path) -> None:
    _, *kept = run(built, "prefill", TOKENS[:, :5], [0, 0], [4, 4], *caches())
    logits = run(built, "prefill", TOKENS[:, 5:], [5, 5], [2, 2], *kept)[0]
    expected = whole(built, 8)
    np.testing.assert_allclose(logits, expected, atol=1e-6 * np.ptp(expected))


@pytest.mark.parametrize(
    ("seq", "ctx", "other", "words"),
    [
        (1, 33, 33, "cache_k: ctx must be 1 to 32"),
        (1, 12, 11, "cache_v: ctx differs between inputs"),
        (2, 12, 12, "tokens shape dimension 1 mismatch"),
    ],
)
def test_decode_refuses_sizes_that_it_does_not_have(
    built: Path, seq: int, ctx: int, other: int, words: str
) -> None:
    k, v = (np.zeros((LAYERS, 2, size, N_EMBD_KV), np.float32) for size in (ctx, other))
    with pytest.raises(IngotError, match=words):
        run(built, "decode", TOKENS[:, :seq], [0, 0], k, v)
