"""Test outlines and their picture, and the reader of the compiler's text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ingot.inspection.graph_picture import _boxes, picture
from ingot.inspection.ir_dumps import read as read_phase
from ingot.inspection.module_content import (
    Buffer,
    Content,
    Function,
    filtered,
    peak_bytes,
)
from ingot.inspection.outline import Outline, outline
from ingot.inspection.text_report import graph_lines
from ingot.model.component import code_of
from ingot.model.target import read_target
from ingot.stages.compile import plan_compile, plan_ir
from ingot.stages.link import plan_link
from ingot.stages.specialize import plan_specialize
from tests import scratch
from tests.project import ROOT
from tests.toy_decoder import read as read_toy
from tests.two_norms import BLOCK, GRAPH, NORM


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outline:
    return outline(read_toy(tmp_path_factory.mktemp("toy")), lambda *_: True)


def test_a_filter_that_names_a_block_shows_all_of_it(tmp_path: Path) -> None:
    found = outline(read_toy(tmp_path), lambda *names: "layer.1" in names)
    assert [piece.kind for piece in found.pieces] == ["layer.global"] * 2
    assert [len(piece.uses) for piece in found.pieces] == [11, 11]


def test_the_picture_has_every_call_and_shape_and_is_the_same_each_time(
    whole: Outline,
) -> None:
    text = picture(whole)
    assert text == picture(whole)
    root = ElementTree.fromstring(text)
    words = [item.text or "" for item in root.iter() if item.tag.endswith("text")]
    assert words.count("entry point prefill") == 1
    order = "1 x layer.local, 1 x layer.global, 1 x layer.local"
    assert words.count(f"layer.local × 2, in turn: {order}") == 2
    assert "attn = attention/attention_causal(rope_q, keys, values, start)" in words
    # An input at the left, what flows on, and an output at the right.
    assert words.count("start: i32[batch]") == 4
    assert words.count("hidden: f32[batch, seq, 16]") == 3
    assert words.count("logits: f32[batch, 1, 48]") == 2


def test_steps_of_one_kind_are_told_apart() -> None:
    one = BLOCK
    other = replace(one, name="other", kind="other", inputs=(("hidden", "y"),))
    other = replace(other, outputs=(("z", "last"),))
    again = replace(one, name="again", inputs=(("hidden", "z"),))
    again = replace(again, outputs=(("end", "last"),))
    entry = GRAPH.entry_points[0]
    ends = (replace(entry.outputs[0], value="y"),)
    entry = replace(entry, blocks=(one, other, again), outputs=ends)
    found = outline(replace(GRAPH, entry_points=(entry,)), lambda *_: True)
    titles = [(box.title, box.outputs) for box in _boxes(*found.entries[0])]
    assert titles == [
        ("layer.0", ("y: f32[batch, seq, 4]",)),
        ("other", ()),
        ("again", ()),
    ]


def test_a_filter_measures_the_buffers_that_it_leaves() -> None:
    buffers = (Buffer("alloca transient", 8), Buffer("alloca external", 4))
    function = Function("run", (), (), buffers, peak_bytes(buffers))
    content = Content((function,), ())
    for pattern, size in (("alloca external", 4), ("run", 12)):
        left = filtered(content, lambda *names, wanted=pattern: wanted in names)
        assert [item.peak_bytes for item in left.functions] == [size]


def test_nothing_in_the_picture_lies_outside_it(whole: Outline) -> None:
    root = ElementTree.fromstring(picture(whole))
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    boxes = [item.attrib for item in root.iter() if "rx" in item.attrib]
    assert len(boxes) > 10
    for box in boxes:
        left, top = float(box["x"]), float(box["y"])
        assert 0 <= left < left + float(box["width"]) <= width
        assert 0 <= top < top + float(box["height"]) <= height


def test_layers_that_take_turns_are_told_in_the_shortest_turn(whole: Outline) -> None:
    from ingot.inspection.outline import _order

    assert _order([("a", 5), ("b", 1)] * 3) == "3 x (5 x a, 1 x b)"
    assert _order([("a", 1), ("b", 1), ("a", 1)]) == "1 x a, 1 x b, 1 x a"
    assert "  in turn: 1 x layer.local" in "\n".join(graph_lines(whole, whole=True))


@pytest.mark.parametrize("name", ["x86_64", "aarch64", "vulkan"])
def test_compiled_in_steps_a_model_has_the_same_bytes(
    name: str, tmp_path: Path
) -> None:
    target = read_target(ROOT / f"targets/{name}.yaml", ROOT)
    component = ROOT / f"components/{NORM.component}.mlir"
    made = scratch.run(
        plan_specialize(NORM, code_of(component.read_text("utf-8"))),
        tmp_path / "instance",
    )
    linked = scratch.run(plan_link(GRAPH), tmp_path / "link", {made.name: made})
    whole = scratch.compiled(target, linked, tmp_path / "whole").read_bytes()
    made = linked
    for action in plan_compile(GRAPH, target):
        made = scratch.run(action, tmp_path / made.stem, {made.name: made})
    phase = linked
    for action in plan_ir(GRAPH, target):
        phase = scratch.run(action, tmp_path / phase.stem, {phase.name: phase})
    rest = ("--compile-from=vm",)
    in_phases = scratch.compiled(target, phase, tmp_path / "rest", steps=rest)
    if name == "vulkan":
        # SPIR-V says of which file and line it was made.
        assert len(made.read_bytes()) == pytest.approx(len(whole), rel=0.01)
        return
    assert made.read_bytes() == whole
    assert in_phases.read_bytes() == whole


def test_constants_and_sizes_that_follow_from_a_shape_are_read(tmp_path: Path) -> None:
    source = tmp_path / "buffers.mlir"
    source.write_text(
        """
        module {
          util.func public @run(%view: !hal.buffer_view) {
            %c4 = arith.constant 4 : index
            %c64 = arith.constant 64 : index
            %table = arith.constant dense<[1.0, 2.0, 4.0]> : tensor<3xf32>
            %rows = hal.buffer_view.dim<%view : !hal.buffer_view>[0] : index
            %columns = hal.buffer_view.dim<%view : !hal.buffer_view>[1] : index
            %known = util.assume.int %columns<umin = 1, umax = 9> : index
            %cells = arith.muli %rows, %known : index
            %bytes = arith.muli %cells, %c4 : index
            %whole = util.align %bytes, %c64 : index
            %is_odd = arith.cmpi ugt, %whole, %c64 : index
            %most = arith.select %is_odd, %whole, %c4 : index
            %buffer, %made = stream.resource.alloca uninitialized
                : !stream.resource<transient>{%most} => !stream.timepoint
            util.optimization_barrier %buffer : !stream.resource<transient>
            util.optimization_barrier %table : tensor<3xf32>
            util.return
          }
        }
        """,
        encoding="utf-8",
    )
    found = read_phase(source, "stream", {"run": ((5, 7),)})
    (function,) = found.functions
    # 5 * 7 * 4 = 140, in steps of 64.
    assert function.buffers == (Buffer("alloca transient", 192),)
    assert function.peak_bytes == 192
    constants = {part.title: part.sizes for part in found.sections}["constants"]
    assert constants == (("tensor<3xf32>", 12),)
    (unknown,) = read_phase(source, "stream", {}).functions
    assert (unknown.buffers[0].size_bytes, unknown.peak_bytes) == (None, None)


def test_the_peak_counts_what_lives_at_the_same_time() -> None:
    events = [("alloca", 8), ("alloca", 4), ("dealloca", 8), ("alloca", 6)]
    buffers = [Buffer(f"{event} transient", size) for event, size in events]
    assert peak_bytes(tuple(buffers)) == 12
    assert peak_bytes((*buffers, Buffer("import external", None))) == 12
