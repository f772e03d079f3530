"""Test every component against its oracle over many shapes, dynamic and specialised.

What is tried follows from the folder and the signatures; see `tests/component_cases.py`
for the sizes, and `tests/domains` for what arguments mean. The nightly run takes every
row of sizes for the static modules too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from ingot.model.component import read_component
from ingot.model.graph import Instance
from tests.component_cases import (
    COMPONENTS,
    ROOT,
    ROWS,
    VARIANTS,
    component_files,
    instance_of,
    row_sizes,
    signature_of,
    text_of,
)
from tests.component_runs import (
    FAST_FLAGS,
    FLAGS,
    Forward,
    in_range,
    judge,
    oracle_of,
    shapes,
    together,
)
from tests.outcomes import for_others
from tests.real_sizes import real_instances

# The row that static modules are always made for: loops with a vector and a rest.
USUAL = "above"
# Of each instance its name says all.
with for_others():
    REAL = real_instances()

Compiled = Callable[..., Callable[[str], Forward]]


def members(group: str) -> list[str]:
    """Return the components of a family, or the one of the name."""
    return [item for item in VARIANTS if f"{item}/".startswith(f"{group}/")]


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Compile the components of a family with dynamic shapes."""

    @cache
    def family(name: str) -> Callable[[str], Forward]:
        with for_others():
            texts = {item: text_of(item) for item in members(name)}
            return batch(texts, tmp_path_factory.mktemp("dynamic"), FLAGS)

    return family


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Compile the components of a family, or one alone, at the sizes of a row."""

    @cache
    def group(name: str, row: str) -> Callable[[str], Forward]:
        folder = tmp_path_factory.mktemp("static")
        with for_others():
            texts = {item: in_range(bound(item, row), folder) for item in members(name)}
            return batch(texts, folder, FLAGS + FAST_FLAGS)

    return group


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Compile the instances of a component at the dims of models."""

    @cache
    def instances(component: str) -> Callable[[str], Forward]:
        folder = tmp_path_factory.mktemp("real")
        texts = {
            name: in_range(item, folder)
            for name, item in REAL.items()
            if item.component == component
        }
        return batch(texts, folder, FLAGS + FAST_FLAGS)

    return instances


def batch(
    texts: dict[str, str], folder: Path, flags: tuple[str, ...]
) -> Callable[[str], Forward]:
    """Compile many modules as one, and return what finds the function of each."""
    found = together(texts, folder, flags)

    def function(name: str) -> Forward:
        forward = found[name]
        if isinstance(forward, str):
            pytest.fail(forward, pytrace=False)
        return forward

    return function


def bound(component: str, row: str) -> Instance:
    """Return an instance at a row's sizes; the dims that may stay dynamic do."""
    signature = signature_of(component)
    sizes = row_sizes(signature, row)
    fixed = {name: n for name, n in sizes.items() if name not in signature.dynamic}
    return instance_of(signature, fixed)


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_is_valid_as_it_stands(component: str) -> None:
    from iree.compiler import ir

    with ir.Context():
        module = ir.Module.parseFile(str(ROOT / f"components/{component}.mlir"))
        assert module.operation.verify()


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_argument_is_used(component: str) -> None:
    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    code = re.sub(r"//.*", "", text)
    for formal in read_component(component, ROOT).arguments:
        uses = len(re.findall(rf"%{formal.name}\b", code)) - 1
        assert uses > 0, f"%{formal.name} is not used"


@pytest.mark.parametrize("component", COMPONENTS)
def test_no_64_bit_numbers_which_portable_vulkan_lacks(component: str) -> None:
    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    assert not re.search(r"\b[if]64\b|x[if]64\b", text)


@pytest.mark.parametrize("component", COMPONENTS)
def test_oracle_takes_the_arguments_of_the_component(component: str) -> None:
    signature = read_component(component, ROOT)
    expected = [formal.name for formal in signature.arguments]
    assert list(inspect.signature(oracle_of(signature)).parameters) == expected
    assert signature.results


@pytest.mark.reads(files=component_files)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("component", VARIANTS)
def test_dynamic_component_computes_its_oracle(
    component: str, row: str, dynamic: Compiled
) -> None:
    signature = signature_of(component)
    forward = dynamic(component.partition("/")[0])(component)
    judge(forward, signature, row_sizes(signature, row))


@pytest.mark.reads(files=component_files)
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, marks=[] if row == USUAL else [pytest.mark.nightly])
        for row in ROWS
        if row != "empty"
    ],
)
@pytest.mark.parametrize("component", VARIANTS)
def test_static_component_computes_its_oracle(
    component: str, row: str, static: Compiled
) -> None:
    signature = signature_of(component)
    group = component.partition("/")[0] if row == USUAL else component
    forward = static(group, row)(component)
    judge(forward, signature, row_sizes(signature, row), bound=True)


@pytest.mark.reads(files=lambda name: component_files(REAL[name].component))
@pytest.mark.parametrize("name", REAL)
def test_component_computes_its_oracle_at_the_dims_of_models(
    name: str, real: Compiled
) -> None:
    item = REAL[name]
    given = {argument.name for argument in item.arguments}
    signature = read_component(item.component, ROOT).leaving_out(given)
    if item.weight:
        signature = signature.with_weight(item.weight)
    fixed = {dim: size for dim, size in item.dims if size is not None}
    forward = real(item.component)(name)
    for sizes in shapes(signature, fixed | dict(item.indices)):
        judge(forward, signature, sizes, bound=True)
