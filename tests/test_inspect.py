"""Test what `doit inspect` shows of a model at each level, and what it rejects."""

from __future__ import annotations

import re

import pytest

from ingot.engine.actions import stage_of
from ingot.project.catalogue import read
from ingot.stages.compile import PHASES
from tests.project import Project
from tests.toy_decoder import BUILDS, MODEL, place

pytestmark = BUILDS

TARGET = "vulkan"
NAMED = f"{MODEL}@{TARGET}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("inspect")
    made = Project.create(folder / "checkout")
    place(made.root)
    return made


def inspect(project: Project, *words: str) -> list[str]:
    run = project.doit("inspect", f"model={MODEL}", f"target={TARGET}", *words)
    assert run.code == 0, run.out + run.err
    return run.out.splitlines()


def test_the_graph_shows_blocks_once_and_calls_with_shapes(project: Project) -> None:
    lines = inspect(project)
    assert lines[:10] == [
        f"{NAMED}, graph, layout packed_u32",
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
        "q linear/linear_packed_u32_f32 (norm, blk.0.attn_q.weight)"
        " -> f32[batch, seq, 16]"
    )
    assert "  output cache_k: f32[3, batch, ctx, 8], updates cache_k" in lines
    assert lines[-1] == f"build/{MODEL}/{TARGET}/graph.svg"
    assert not (project.root / f"build/{MODEL}/linked").exists()


def test_a_filter_leaves_the_calls_that_it_names(project: Project) -> None:
    lines = inspect(project, "filter=position/*")
    assert lines[0] == f"{NAMED}, graph, layout packed_u32, filter position/*"
    assert lines[1] == "2 entry points, 6 blocks of 4 kinds, 12 calls of 4 instances"
    calls = [line.split()[1] for line in lines if line.startswith("    ")]
    assert calls == ["position/rope"] * 8


def test_linalg_shows_functions_operations_and_parameters(project: Project) -> None:
    lines = inspect(project, "level=linalg")
    assert re.fullmatch(r"\d+ functions, parameters 18 in 13,504 bytes", lines[1])
    start = lines.index("function rms_norm__n_embd_16.forward: 12 operations")
    assert "    2  linalg.generic" in lines[start : start + 9]
    assert "    3,072 bytes  token_embd.weight" in lines
    assert lines[-1] == f"build/{MODEL}/{TARGET}/input.mlir"


def test_tensor_shows_buffers_as_they_are_allocated_and_freed(project: Project) -> None:
    lines = inspect(project, "level=tensor")
    assert re.fullmatch(
        r"\d+ functions, \d+ dispatches, parameters 18 in 13,504 bytes", lines[1]
    )
    assert lines[2] == "buffers are measured for batch = 1, seq = 24, ctx = 32"
    entry = part(lines, "function prefill: ")
    assert re.search(r" of \d+ kinds, [\d,]+ bytes at most$", entry[0])
    # Tokens, 24 of 4 bytes; the layers share one function.
    assert "96 bytes  import external" in entry
    assert "3  util.call prefill.layer" in entry
    layer = part(lines, "function prefill.layer: ")
    # The cache: 3 layers of 32 rows of 8 numbers.
    assert layer.count("3,072 bytes  import external") == 2
    freed = [line for line in layer if "dealloca transient" in line]
    assert freed
    assert {line.replace("dealloca", "alloca") for line in freed} <= set(layer)


def part(lines: list[str], start: str) -> list[str]:
    """Return the lines of one function, without their indents."""
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    return [line.strip() for line in lines[first : lines.index("", first)]]


def test_program_shows_functions_dispatches_and_code(project: Project) -> None:
    lines = inspect(project, "level=program")
    assert re.fullmatch(
        r"\d+ functions, \d+ dispatches, constants \d+ in [\d,]+ bytes, "
        r"code \d+ in [\d,]+ bytes",
        lines[1],
    )
    text = "\n".join(lines)
    assert "unnamed" not in text
    assert re.search(r"\n +\d  prefill.layer_dispatch_\d+_\w+_Dx\w+x8x16_f32\n", text)
    assert re.search(r"\n +[\d,]+ bytes  prefill\S+_dispatch_0_vulkan_spirv_fb\n", text)


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


def test_no_bundle_needs_a_phase_and_each_starts_from_the_one_before(
    project: Project,
) -> None:
    plan = read(project.root).plan
    needed = plan.needed([f"bundle:{NAMED}"])
    assert not [task for task in needed if stage_of(task) == "ir"]
    tasks = [f"ir-{phase}:{NAMED}" for phase in PHASES]
    for task, before in zip(tasks, [f"link:{MODEL}@packed_u32", *tasks], strict=False):
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
            f"filter=atn_output: no name of {MODEL} at level 'graph' matches\n"
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
        "filter=linalg.generi",
    )
    run = project.doit("inspect", *words)
    assert (run.code, run.out) == (3, "")
    assert (
        f"filter=linalg.generi: no name of {MODEL} at level 'linalg' matches\n"
        "  did you mean 'linalg.generic'?"
    ) in run.err
