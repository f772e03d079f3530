"""`doit inspect`: a model at each level, its picture, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ingot.catalogue import read, stage_of
from ingot.inspection.content import Buffer, peak_bytes
from ingot.inspection.outline import Outline, outline
from ingot.inspection.phases import read as read_phase
from ingot.inspection.picture import picture
from ingot.inspection.show import graph_lines
from ingot.readers.target import read_target
from ingot.stages.compile import PHASES, plan_compile, plan_phases
from ingot.stages.link import plan_link
from ingot.stages.specialize import plan_specialize
from tests.perform import perform
from tests.project import ROOT, Project
from tests.toy_decoder import MODEL, place
from tests.toy_decoder import read as read_toy
from tests.two_norms import GRAPH, NORM

TARGET = "vulkan"
NAMED = f"{MODEL}@{TARGET}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("inspect")
    made = Project.create(folder / "checkout", folder / "store")
    place(made.root)
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Outline:
    return outline(read_toy(tmp_path_factory.mktemp("toy")), lambda *_: True)


def inspect(project: Project, *words: str) -> list[str]:
    run = project.doit("inspect", f"model={MODEL}", f"target={TARGET}", *words)
    assert run.code == 0, run.out + run.err
    return run.out.splitlines()


def test_the_graph_shows_blocks_once_and_calls_with_shapes(project: Project) -> None:
    lines = inspect(project)
    assert lines[:10] == [
        f"{NAMED}, graph, layout plain",
        "2 entry points, 11 blocks of 9 kinds, 71 calls of 20 instances",
        "18 parameters in 13,504 bytes",
        "",
        "entry point prefill",
        "  input tokens: i32[batch, seq]",
        "  input start: i32[batch]",
        "  input last: i32[batch]",
        "  input cache_k: f32[3, batch, ctx, 8]",
        "  input cache_v: f32[3, batch, ctx, 8]",
    ]
    assert lines.count("  in turn: 1 x layer.local, 1 x layer.global, 1 x layer.local")
    start = lines.index(
        "  block layer.local x 2 (layer.0 ... layer.2): 11 calls, "
        "6 parameters in 3,648 bytes each"
    )
    assert " ".join(lines[start + 2].split()) == (
        "q linear/linear (norm, blk.0.attn_q.weight) -> f32[batch, seq, 16]"
    )
    assert "  output cache_k: f32[3, batch, ctx, 8], in the place of cache_k" in lines
    assert lines[-1] == f"build/{MODEL}/{TARGET}/graph.svg"
    assert not (project.root / f"build/{MODEL}/linked").exists()


def test_a_filter_leaves_the_calls_that_it_names(project: Project) -> None:
    lines = inspect(project, "filter=position/*")
    assert lines[0] == f"{NAMED}, graph, layout plain, filter position/*"
    assert lines[1] == "2 entry points, 6 blocks of 4 kinds, 12 calls of 4 instances"
    calls = [line.split()[1] for line in lines if line.startswith("    ")]
    assert calls == ["position/rope"] * 8


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


def test_linalg_shows_functions_operations_and_parameters(project: Project) -> None:
    lines = inspect(project, "level=linalg")
    assert lines[1] == "22 functions, parameters 18 in 13,504 bytes"
    start = lines.index("function rms_norm__n_embd_16.forward: 12 operations")
    assert "    2  linalg.generic" in lines[start : start + 9]
    assert "    3,072 bytes  token_embd.weight" in lines
    assert lines[-1] == f"build/{MODEL}/{TARGET}/input.mlir"


def test_tensor_shows_buffers_as_they_are_allocated_and_freed(project: Project) -> None:
    lines = inspect(project, "level=tensor")
    assert re.fullmatch(
        r"3 functions, \d+ dispatches, parameters 18 in 13,504 bytes", lines[1]
    )
    assert lines[2] == "buffers are measured for batch = 1, seq = 24, ctx = 32"
    (start,) = (
        i for i, line in enumerate(lines) if line.startswith("function prefill")
    )
    assert re.search(r"of \d+ kinds, [\d,]+ bytes at most$", lines[start])
    events = [line.strip() for line in lines[start : lines.index("", start)]]
    # Tokens, 24 of 4 bytes; then the cache, 3 layers of 32 rows of 8 numbers.
    assert events.count("96 bytes  import external") == 1
    assert events.count("3,072 bytes  import external") == 2
    allocated = sum(
        "alloca transient" in event.replace("dealloca", "") for event in events
    )
    freed = sum("dealloca transient" in event for event in events)
    assert allocated == freed > 0


def test_program_shows_functions_dispatches_and_code(project: Project) -> None:
    lines = inspect(project, "level=program")
    assert re.fullmatch(
        r"3 functions, \d+ dispatches, constants \d+ in [\d,]+ bytes, "
        r"code \d+ in [\d,]+ bytes",
        lines[1],
    )
    text = "\n".join(lines)
    assert "unnamed" not in text
    assert re.search(r"\n +6  prefill_dispatch_\d+_matmul_Dx8x16_f32\n", text)
    assert re.search(r"\n +[\d,]+ bytes  prefill_dispatch_0_vulkan_spirv_fb\n", text)


def test_a_filter_takes_dispatches_and_operations(project: Project) -> None:
    lines = inspect(project, "level=tensor", "filter=*matmul*")
    kinds = [line.split()[-1] for line in lines if line.startswith("    ")]
    assert kinds
    assert all("matmul" in kind for kind in kinds)
    lines = inspect(project, "level=linalg", "filter=linalg.fill")
    names = {line.split()[-1] for line in lines if line.startswith("    ")}
    assert names == {"linalg.fill"}


def test_what_is_shown_is_compiled_once_and_told_on_standard_error(
    project: Project,
) -> None:
    words = ("inspect", f"model={MODEL}", f"target={TARGET}", "level=program")
    project.doit(*words)
    again = project.doit(*words)
    assert (again.code, again.err) == (0, "")


def test_compiled_in_steps_a_model_has_the_same_bytes(tmp_path: Path) -> None:
    target = read_target(ROOT / "targets/x86_64.yaml", ROOT)
    whole = plan_compile(GRAPH, target)
    phases = tuple(plan_phases(GRAPH, target))
    last = tuple(word for word in whole.argv if word != "linked.mlir")
    rest = replace(
        whole, argv=(last[0], "vm.mlir", "--compile-from=vm", *last[1:-1], "rest.vmfb")
    )
    component = ROOT / f"components/{NORM.component}.mlir"
    before = (plan_specialize(NORM, component), plan_link(GRAPH))
    for action in (*before, whole, *phases, rest):
        perform(action, tmp_path)
    assert (tmp_path / "rest.vmfb").read_bytes() == (
        tmp_path / "model.vmfb"
    ).read_bytes()


def test_no_bundle_needs_a_phase_and_each_starts_from_the_one_before(
    project: Project,
) -> None:
    plan = read(project.root).plan
    needed = plan.needed([f"bundle:{NAMED}"])
    assert not [task for task in needed if stage_of(task) == "phase"]
    tasks = [f"phase-{phase}:{NAMED}" for phase in PHASES]
    for task, before in zip(tasks, [f"link:{MODEL}@plain", *tasks], strict=False):
        assert before in plan.needed([task])
    assert plan.by_task[tasks[1]].argv[:4] == (
        "iree-compile",
        "input.mlir",
        "--compile-from=input",
        "--compile-to=stream",
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("level=graf",), "level=graf: no level named 'graf'\n  did you mean 'graph'?"),
        (
            ("filter=atn_output",),
            f"filter=atn_output: nothing of {MODEL} at level 'graph' has such a name\n"
            "  did you mean 'attn_output'?",
        ),
        (("model=toy-decodr",), "model=toy-decodr: no model named 'toy-decodr'"),
        (("target=x86_64,vulkan",), "inspect needs one target, found x86_64, vulkan"),
        (("prompt=x",), "prompt=x: inspect reads no variable named 'prompt'"),
        (("build",), "inspect takes no task, found 'build'"),
    ],
    ids=["level", "filter", "model", "targets", "variable", "task"],
)
def test_what_is_wrong_is_said_and_nothing_is_made(
    project: Project, words: tuple[str, ...], says: str
) -> None:
    given = {word.partition("=")[0] for word in words}
    usual = {"model": MODEL, "target": TARGET}
    rest = [f"{name}={value}" for name, value in usual.items() if name not in given]
    before = sorted(project.root.rglob("build/*"))
    run = project.doit("inspect", *rest, *words)
    assert says in run.err
    assert (run.code, run.out) == (3, "")
    assert sorted(project.root.rglob("build/*")) == before


def test_a_filter_that_takes_nothing_of_a_phase_is_an_error(project: Project) -> None:
    words = (
        f"model={MODEL}",
        f"target={TARGET}",
        "level=linalg",
        "filter=linalg.matmull",
    )
    run = project.doit("inspect", *words)
    assert (run.code, run.out) == (3, "")
    assert (
        f"filter=linalg.matmull: nothing of {MODEL} at level 'linalg' has such a name\n"
        "  did you mean 'linalg.matmul'?"
    ) in run.err


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
