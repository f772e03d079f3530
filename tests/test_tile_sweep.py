"""Test that every kernel is correct at every number of tiles and every remainder.

A compiler that takes 8 tiles of columns at a time can be right at 8 and 16 and leave
the ninth column unwritten. So each kernel of packed weights runs with 1 to 40, 64, 176
and 177 tiles, and with numbers of rows on both sides of each group of rows that kernels
and compilers take at once; attention runs with as many queries.

One module holds all sizes of a kernel, and one process makes all of its calls. The
number of tiles is dynamic there. Where the compiler knows the number, as it does in a
model, it chooses other loops for it; that takes one function per number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from ingot.emit.mlir_text import mlir_type
from ingot.emit.modules import ComponentGroup, component_function
from ingot.model.component import ComponentSignature, code_of, dims_of
from ingot.model.graph import Instance
from ingot.model.layout import Layout, read_layout
from ingot.project.catalogue import read
from ingot.runtime.invoke import Call, Module, call
from ingot.stages.link import plan_link_component
from ingot.stages.specialize import plan_specialize
from tests import scratch
from tests.component_cases import (
    ROOT,
    VARIANTS,
    Case,
    cases,
    component_files,
    fitted,
    instance_of,
    signature_of,
)
from tests.component_runs import ODD, difference, expected_of, passed
from tests.project import skipped
from tests.test_odd_sizes import of_tree, served

pytestmark = pytest.mark.reads(
    "pyproject.toml",
    "targets/**/*.*",
    files=lambda component, **_: component_files(component),
)

TILES = (*range(1, 41), 64, 176, 177)
# batch and seq: one, and what is below, at and above the groups of 4, 6, 8, 16 and 64
# rows that kernels take at once.
ROWS = (
    *((1, 1), (3, 1), (1, 3), (2, 4), (1, 5)),
    *((1, 6), (2, 7), (1, 8), (3, 9), (1, 11)),
    *((1, 15), (2, 17), (1, 63), (1, 64), (3, 65)),
)
# What is static. Rows are whole vectors and a rest, or blocks of 32 where a kernel has
# those; half a head is 12 columns, one vector and a half.
FIXED = {
    **{"n_expert": 5, "n_expert_used": 2},
    **{"n_in": 29, "n_embd": 29, "n_block": 3, "n_super": 2},
}
HEADS = {
    "n_layer": 2,
    "n_head": 4,
    "n_head_kv": 2,
    "head_dim": 24,
    "n_embd": 96,
    "block_size": 16,
}

LAYOUTS = {
    "aarch64": "packed_n8",
    "x86_64": "packed_n8",
    "x86_64-v4": "packed_n16",
    "vulkan-llvmpipe": "packed_u32",
    "vulkan": "packed_u32",
}
MARKS = {
    "aarch64": [pytest.mark.aarch64],
    "vulkan": [pytest.mark.vulkan],
    "vulkan-llvmpipe": [pytest.mark.vulkan],
}
# What every run of the tests tries; the rest is nightly.
KERNELS = ("aarch64-", "vulkan-llvmpipe-")
KNOWN = ("aarch64-moe/mul_mat_id_per_expert_x_packed_i8",)
ATTENTION = ("aarch64-",)

# The kernels of GGUF's blocks are built alike: a sample of them stands for all.
ALIKE = (
    "_q5_0",
    "packed_q4_k",
    "packed_u32_q6_k",
    "packed_u32_q4_1",
    "lookup_packed_q6_k",
)

UNRUNNABLE = read(ROOT, ()).settings.unrunnable
# Inlined, dozens of calls take the compiler minutes.
NEVER = "attributes {inlining_policy = #util.inline.never}"

# Every call of a kernel: the instance whose function it is, and its arguments.
Calls = list[tuple[Instance, Case]]


def layout_of(target: str) -> Layout:
    return read_layout(ROOT / f"targets/layouts/{LAYOUTS[target]}.yaml", ROOT)


def kernels(target: str) -> list[str]:
    """Return the kernels of a target's layout, whose weights are in tiles."""
    layout = layout_of(target)
    names = {
        form
        for component, by_type in layout.kernels.items()
        for stored in by_type
        if (item := layout.kernel(component, stored))
        for name in (item.prefill, item.decode)
        for form in (name, f"{name}:{stored}")
    }
    return [item for item in VARIANTS if item in names]


def tile_n(target: str, component: str) -> int:
    """Return how many rows a target stores together of what a kernel reads."""
    layout = layout_of(target)
    name = component.partition(":")[0]
    return next(
        layout.rows_of_tile(stored)
        for replaced, by_type in layout.kernels.items()
        for stored in by_type
        if (item := layout.kernel(replaced, stored))
        and name in (item.prefill, item.decode)
    )


def attention(target: str) -> list[str]:
    """Return the kernels of attention that are for a target."""
    return [name for name in served(target) if name.startswith("attention/")]


def dims(signature: ComponentSignature) -> set[str]:
    return {dim for item in signature.arguments for dim in dims_of(item)}


def tile_calls(signature: ComponentSignature, tile_n: int, static: bool) -> Calls:
    """Return a call for each number of tiles; `static`: its instance knows it."""
    names = dims(signature)
    known = FIXED | {"tile_n": tile_n}
    fixed = {name: size for name, size in known.items() if name in names}
    calls = []
    for number, n_tile in enumerate(TILES):
        known = fixed | ({"n_tile": n_tile} if static else {})
        batch, seq = ROWS[number % len(ROWS)]
        sizes = fixed | {"n_tile": n_tile, "batch": batch, "seq": seq}
        calls.append(one_call(signature, known, sizes, number))
    return calls


def query_calls(signature: ComponentSignature) -> Calls:
    """Return a call for each number of queries; of blocks, where it takes one query."""
    names = dims(signature)
    fixed = {name: size for name, size in HEADS.items() if name in names}
    calls = []
    for number, size in enumerate(TILES):
        given = {"batch": 1 + number % 3, "seq": size, "ctx": 0}
        given = {name: size for name, size in given.items() if name in names}
        sizes = fitted(signature, fixed | given) | fixed
        if "seq" not in names:
            blocks = size % 128  # of one sequence, at most
            sizes |= {"n_block_seq": blocks, "n_block": 3 + sizes["batch"] * blocks}
        calls.append(one_call(signature, fixed, sizes, number))
    return calls


def one_call(
    signature: ComponentSignature,
    known: Mapping[str, int],
    sizes: Mapping[str, int],
    number: int,
) -> tuple[Instance, Case]:
    """Return one call; the kinds of input take turns."""
    variants = list(cases(signature, sizes))
    return instance_of(signature, known), variants[number % len(variants)]


def linked(instances: tuple[Instance, ...], folder: Path) -> str:
    """Return the module whose functions run one instance each, their sizes checked."""
    made = {}
    for item in instances:
        source = ROOT / f"components/{item.component}.mlir"
        path = scratch.run(
            plan_specialize(item, code_of(source.read_text("utf-8"))),
            folder / item.name,
        )
        made[path.name] = path
    group = ComponentGroup("all", instances)
    path = scratch.run(plan_link_component(ODD, group), folder / "link", made)
    return path.read_text("utf-8")


def with_all(module: str, calls: Calls) -> str:
    """Return the module with one exported function, `@all`, which makes every call."""
    tensors, scalars, lines, results, types = [], [], [], [], []
    for number, (instance, _) in enumerate(calls):
        own = [
            (f"%tensor_{number}_{i}", mlir_type(item.type))
            for i, item in enumerate(instance.arguments)
        ]
        numbers = [
            (f"%scalar_{number}_{i}", kind)
            for i, (_, kind) in enumerate(instance.scalars)
        ]
        operands = ", ".join(name for name, _ in (*own, *numbers))
        kinds = ", ".join(kind for _, kind in (*own, *numbers))
        (result,) = (mlir_type(item.type) for item in instance.results)
        lines.append(
            f"    %result_{number} = util.call @{component_function(instance.name)}"
            f"({operands}) : ({kinds}) -> {result}\n"
        )
        tensors += own
        scalars += numbers
        results.append(f"%result_{number}")
        types.append(result)
    formals = ", ".join(f"{name}: {kind}" for name, kind in (*tensors, *scalars))
    listed = ", ".join(types)
    inner, _, _ = module.rpartition("}")
    inner = re.sub(
        r"util\.func public (@.*) \{", rf"util.func private \1 {NEVER} {{", inner
    )
    return (
        f"{inner}  util.func public @all({formals}) -> ({listed}) {{\n{''.join(lines)}"
        f"    util.return {', '.join(results)} : {listed}\n  }}\n}}\n"
    )


def judge(
    target: str, signature: ComponentSignature, calls: Calls, folder: Path
) -> None:
    """Fail where a kernel of a target differs from its oracle at any size."""
    instances = tuple({item.name: item for item, _ in calls}.values())
    source = folder / "sweep.mlir"
    source.write_text(with_all(linked(instances, folder), calls), "utf-8")
    vmfb = scratch.compiled(of_tree(target), source, folder / "vmfb")
    tensors, scalars = [], []
    for instance, case in calls:
        given = passed(signature, case, bound=True)
        tensors += given[: len(instance.arguments)]
        scalars += given[len(instance.arguments) :]
    what = Call("all", tuple(tensors), tuple(scalars), len(calls))
    found = call(of_tree(target).runner, Module(vmfb), what)
    wrong = [
        f"{case}: {words}"
        for (_, case), result in zip(calls, found, strict=True)
        if (words := difference(signature, result, expected_of(signature, case)))
    ]
    assert not wrong, f"{signature.component} on {target}:\n" + "\n".join(wrong)


def tried(
    find: Callable[[str], list[str]], always: tuple[str, ...]
) -> list[ParameterSet]:
    """Return a case for every target and its kernels, with the marks that it needs."""
    found = []
    for target in LAYOUTS:
        marks = [*MARKS.get(target, ()), *skipped(UNRUNNABLE, target)]
        for name in find(target):
            often = f"{target}-{name}".startswith(always) and not name.endswith(ALIKE)
            own = marks if often else [*marks, pytest.mark.nightly]
            found.append(pytest.param(target, name, marks=own))
    return found


@pytest.mark.parametrize(("target", "component"), tried(kernels, KERNELS))
def test_a_kernel_is_right_at_every_number_of_tiles(
    target: str, component: str, tmp_path: Path
) -> None:
    signature = signature_of(component)
    judge(
        target,
        signature,
        tile_calls(signature, tile_n(target, component), static=False),
        tmp_path,
    )


@pytest.mark.parametrize(("target", "component"), tried(kernels, KNOWN))
def test_a_kernel_is_right_at_every_number_of_tiles_that_is_known(
    target: str, component: str, tmp_path: Path
) -> None:
    signature = signature_of(component)
    judge(
        target,
        signature,
        tile_calls(signature, tile_n(target, component), static=True),
        tmp_path,
    )


@pytest.mark.parametrize(("target", "component"), tried(attention, ATTENTION))
def test_attention_is_right_for_every_number_of_queries(
    target: str, component: str, tmp_path: Path
) -> None:
    signature = signature_of(component)
    judge(target, signature, query_calls(signature), tmp_path)
