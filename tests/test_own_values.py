"""Test that layers compile at the ends of an entry point and between them."""

from __future__ import annotations

import platform
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from ingot.emit.modules import main_module
from ingot.model.component import code_of
from ingot.model.graph import (
    Argument,
    Block,
    Call,
    DynamicDim,
    EntryPoint,
    Graph,
    Instance,
    Port,
)
from ingot.model.shapes import TensorType
from ingot.model.target import read_target
from ingot.stages.link import plan_link
from ingot.stages.specialize import plan_specialize
from oracles.normalization import softmax
from tests import scratch
from tests.project import ROOT

X = TensorType(("batch", "seq", 4), "f32")
SOFTMAX = Instance(
    name="softmax__n_embd_4",
    component="normalization/softmax",
    oracle=("oracles/normalization.py", "softmax"),
    dims=(("batch", None), ("seq", None), ("n_embd", 4)),
    indices=(),
    scalars=(),
    arguments=(Argument("x", X),),
    results=(Argument("y", X),),
)


def block(name: str, taken: str, made: str, times: int) -> Block:
    """A block that takes a softmax so many times."""
    values = [f"v{number}" for number in range(times + 1)]
    return Block(
        name=name,
        kind=name.partition(".")[0],
        inputs=((values[0], taken),),
        calls=tuple(
            Call(new, SOFTMAX.name, (old,), (), (new,)) for old, new in pairwise(values)
        ),
        outputs=((made, values[-1]),),
        types=tuple((value, X) for value in values),
    )


def entry(name: str, kept: tuple[str, ...], *blocks: Block) -> EntryPoint:
    """An entry point of x that returns these values."""
    return EntryPoint(
        name,
        (Port("x", X, "hidden", "x"),),
        blocks,
        tuple(Port(value, X, "hidden", value) for value in kept),
    )


def layers(first: str) -> tuple[Block, ...]:
    names = (first, "h0", "h1", "h2", "h3")
    return tuple(
        block(f"layer.{number}", old, new, 2)
        for number, (old, new) in enumerate(pairwise(names))
    )


# The first ends with its layers, the second begins with them, the last keeps values
# from before them, of them and after them.
GRAPH = Graph(
    model="ends",
    layout="plain",
    dynamic=(DynamicDim("batch", 1, 4), DynamicDim("seq", 1, 8)),
    instances=(SOFTMAX,),
    parameters=(),
    entry_points=(
        entry("ends", ("h3",), block("embed", "x", "a", 1), *layers("a")),
        entry("begins", ("end",), *layers("x"), block("head", "h3", "end", 3)),
        entry(
            "keeps",
            ("a", "h1", "h3", "end"),
            block("embed", "x", "a", 1),
            *layers("a"),
            block("head", "h3", "end", 3),
        ),
    ),
)


def test_layers_share_a_function_where_nothing_is_the_callers() -> None:
    text = main_module(GRAPH)
    assert text.count("inlining_policy = #util.inline.never") > 0
    body = text[text.index("util.func public @begins(") :]
    body = body[: body.index("util.return")]
    called = [line.partition("@")[2] for line in body.splitlines() if "call @" in line]
    assert len(called) == 5
    assert called[0] != called[1] == called[2] == called[3]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="runs what it compiles")
def test_layers_at_the_ends_of_an_entry_point_compute_what_they_do(
    tmp_path: Path,
) -> None:
    import iree.runtime

    target = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    component = ROOT / f"components/{SOFTMAX.component}.mlir"
    made = scratch.run(
        plan_specialize(SOFTMAX, code_of(component.read_text("utf-8"))),
        tmp_path / "instance",
    )
    linked = scratch.run(plan_link(GRAPH), tmp_path / "link", {made.name: made})

    vmfb = scratch.compiled(target, linked, tmp_path / "vmfb")
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.VmModule.mmap(config.vm_instance, str(vmfb))
    loaded = iree.runtime.load_vm_module(module, config)
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32) * 9
    expected: list[np.ndarray] = [x]
    for _ in range(12):
        expected.append(softmax(expected[-1]))
    for name, depths in (("ends", (9,)), ("begins", (11,)), ("keeps", (1, 5, 9, 12))):
        results = loaded[name](x)
        found = results if isinstance(results, tuple) else (results,)
        for item, depth in zip(found, depths, strict=True):
            assert np.abs(item.to_host() - expected[depth]).max() < 1e-6, name
