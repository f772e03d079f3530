"""Compile many components at once for this machine and compare them with oracles.

A start of the compiler costs as much as a component: those of a family go into one
module, each function under a name of its own.
"""

from __future__ import annotations

import importlib
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingot.emit.modules import ComponentGroup, component_function, component_module
from ingot.engine.actions import Action, SourceFile
from ingot.model.component import (
    ComponentSignature,
    IndexFormal,
    TensorFormal,
    code_of,
    read_component,
)
from ingot.model.graph import DynamicDim, Graph, Instance
from ingot.stages.compile import SERIAL
from ingot.stages.specialize import plan_specialize
from tests import scratch
from tests.component_cases import NUMPY, ROOT, Case, cases, fitted, tolerance

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu="
    + ("x86-64-v3" if platform.machine() == "x86_64" else "host"),
)
# What the targets add for speed; it changes which kernels run, so both are compared.
FAST_FLAGS = (
    "--iree-opt-data-tiling",
    "--iree-llvmcpu-enable-ukernels=all",
    "--iree-llvmcpu-vector-pproc-strategy=peel",
)
# batch, and seq below, at and above what kernels take at once.
SHAPES = ((1, 1), (1, 7), (1, 64), (1, 200), (3, 1), (3, 7), (3, 64), (3, 200))
# Where seq is bound, as in decode: batch below, at and above a vector.
STEPS = ((1, 1), (3, 1), (8, 1), (17, 1))

# Rows of which a slow oracle computes the results.
SAMPLED_ROWS = 64

# What instances are given by the models that call them: ranges of what stays dynamic.
ODD = Graph(
    model="odd",
    layout="plain",
    dynamic=(
        DynamicDim("batch", 1, 32),
        DynamicDim("seq", 1, 256),
        DynamicDim("ctx", 1, 512),
        DynamicDim("n_block", 1, 512),
        DynamicDim("n_block_seq", 1, 128),
        DynamicDim("n_patch", 1, 512),
    ),
    instances=(),
    parameters=(),
    entry_points=(),
)

Forward = Callable[..., Any]


def tool_words(name: str, *arguments: str | Path) -> str:
    """Return what a tool of the compiler printed when it failed; '' if it did not.

    Paths among the arguments are files: the one after "-o" is written.
    """
    if any("transform-dialect-library" in str(word) for word in arguments):
        # IREE 3.13 holds a lock while its threads read the library: they wait for it.
        arguments = (*arguments, SERIAL)
    output = Path(arguments[arguments.index("-o") + 1])
    words = [word.name if isinstance(word, Path) else word for word in arguments]
    files = {
        word.name: word
        for word in arguments
        if isinstance(word, Path) and word != output
    }
    for path in re.findall(r"=(targets/[\w./-]+)", " ".join(words)):
        files[path] = ROOT / path
    action = Action(
        task=name,
        argv=(name, *words),
        inputs=tuple((path, SourceFile(file)) for path, file in files.items()),
        outputs=(output.name,),
        tools=scratch.COMPILER,
    )
    try:
        scratch.run(action, output.parent)
    except AssertionError as error:
        return str(error)
    return ""


def run_tool(name: str, *arguments: str | Path) -> None:
    """Run a tool of the compiler; its words are the failure's."""
    words = tool_words(name, *arguments)
    if words:
        pytest.fail(words, pytrace=False)


def loaded(vmfb: Path) -> Callable[[str], Forward]:
    """Return what finds a function of a module by its name."""
    import iree.runtime

    config = iree.runtime.Config("local-sync")
    module = iree.runtime.VmModule.mmap(config.vm_instance, str(vmfb))
    bound = iree.runtime.load_vm_module(module, config)

    def function(name: str) -> Forward:
        forward: Forward = bound[name]
        return lambda *arguments: _on_host(forward(*arguments))

    return function


def _on_host(results: Any) -> Any:
    if isinstance(results, tuple | list):
        return tuple(item.to_host() for item in results)
    return results.to_host()


def compiled(source: Path, folder: Path, flags: tuple[str, ...]) -> Forward:
    """Compile a module, and return its `@forward`."""
    vmfb = folder / "module.vmfb"
    run_tool("iree-compile", source, "-o", vmfb, *flags)
    return loaded(vmfb)("forward")


def merged(modules: Mapping[str, str], path: Path) -> Path:
    """Write one module with the symbols of many, "forward" as "<name>.forward".

    Raises: what the parser says of a module that is not valid.
    """
    from iree.compiler import ir

    with ir.Context(), ir.Location.unknown():
        whole = ir.Module.create()
        for name, text in modules.items():
            module = ir.Module.parse(text)
            items = list(module.body.operations)
            for item in items:
                symbol = item.attributes["sym_name"].value
                ir.SymbolTable.replace_all_symbol_uses(
                    symbol, f"{name}.{symbol}", module.operation
                )
                item.attributes["sym_name"] = ir.StringAttr.get(f"{name}.{symbol}")
            for item in items:
                item.detach_from_parent()
                whole.body.append(item)
        path.write_text(str(whole), "utf-8")
    return path


def together(
    texts: Mapping[str, str], folder: Path, flags: tuple[str, ...]
) -> dict[str, Forward | str]:
    """Compile many modules as one; where that fails, in parts, down to those at fault.

    Returns: each module's `@forward`, or the compiler's error.
    """
    folder = folder / str(len(list(folder.iterdir())))
    folder.mkdir()
    numbers = {name: f"m{number}" for number, name in enumerate(texts)}
    source = merged({numbers[name]: texts[name] for name in texts}, folder / "all.mlir")
    vmfb = folder / "all.vmfb"
    words = tool_words("iree-compile", source, "-o", vmfb, *flags)
    if not words:
        function = loaded(vmfb)
        return {name: function(f"{numbers[name]}.forward") for name in texts}
    if len(texts) == 1:
        return dict.fromkeys(texts, words)
    # A crash names nobody, and some words name all: then half of them.
    told = set(re.findall(r"\b(m\d+)\.", words))
    one = [name for name in texts if numbers[name] in told]
    if len(one) in (0, len(texts)):
        one = list(texts)[: len(texts) // 2]
    parts = (one, [name for name in texts if name not in one])
    found: dict[str, Forward | str] = {}
    for part in parts:
        found |= together({name: texts[name] for name in part}, folder.parent, flags)
    return found


def specialized(instance: Instance, folder: Path) -> Path:
    """Return the file that the specialize action writes for an instance."""
    source = ROOT / "components" / f"{instance.component}.mlir"
    return scratch.run(
        plan_specialize(instance, code_of(source.read_text("utf-8"))), folder
    )


def in_range(instance: Instance, folder: Path) -> str:
    """Return a module whose `@forward` calls an instance as the check of a model does.

    Of sizes without a limit the compiler makes tiles without one, and refuses some.
    """
    from iree.compiler import ir

    body = specialized(instance, folder).read_text("utf-8")
    name = f"{instance.name}.forward"
    with ir.Context(), ir.Location.unknown():
        group = ComponentGroup(instance.name, (instance,))
        whole = ir.Module.parse(component_module(group, ODD.dynamic))
        symbols = {
            item.attributes["sym_name"].value: item for item in whole.body.operations
        }
        symbols.pop(name).erase()
        module = ir.Module.parse(body)
        (inner,) = module.body.operations
        inner.attributes["sym_name"] = ir.StringAttr.get(name)
        inner.attributes["sym_visibility"] = ir.StringAttr.get("private")
        inner.detach_from_parent()
        whole.body.append(inner)
        outer = symbols[component_function(instance.name)]
        outer.attributes["sym_name"] = ir.StringAttr.get("forward")
        return str(whole)


def oracle_of(signature: ComponentSignature) -> Forward:
    """Return the function that the header names."""
    file, function = signature.oracle
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    oracle: Forward = getattr(module, function)
    return oracle


def passed(signature: ComponentSignature, case: Case, bound: bool) -> list[Any]:
    """Return the arguments in the module's order: tensors, then scalars, if bound."""
    pairs = list(zip(signature.arguments, case.arguments, strict=True))
    if not bound:
        values = [value for _, value in pairs]
        all_of_them = read_component(signature.component, ROOT).arguments
        for place in signature.absent:
            formal = all_of_them[place]
            assert isinstance(formal, TensorFormal)
            shape = [0] * len(formal.type.shape)
            values.insert(place, np.empty(shape, NUMPY[formal.type.element]))
        return values
    kept = [(i, value) for i, value in pairs if not isinstance(i, IndexFormal)]
    kept.sort(key=lambda pair: not isinstance(pair[0], TensorFormal))
    return [value for _, value in kept]


def expected_of(signature: ComponentSignature, case: Case) -> tuple[Any, ...]:
    """Return the oracle's results; it is as exact as float64."""
    names = [item.name for item in signature.arguments]
    arguments = dict(zip(names, case.arguments, strict=True))
    results = oracle_of(signature)(**arguments)
    return results if isinstance(results, tuple) else (results,)


def difference(signature: ComponentSignature, found: Any, expected: Any) -> str:
    """Return what is wrong with the results of a call; '' where nothing is."""
    found = found if isinstance(found, tuple) else (found,)
    if len(found) != len(expected):
        return f"{len(found)} results, expected {len(expected)}"
    for formal, got, exact in zip(signature.results, found, expected, strict=True):
        if got.shape != exact.shape:
            return f"{formal.name}: shape {got.shape}, expected {exact.shape}"
        if got.dtype != NUMPY[formal.type.element]:
            return f"{formal.name}: {got.dtype}, expected {formal.type.element}"
        if not np.issubdtype(exact.dtype, np.floating):
            wrong = got.astype(np.int64) != exact.astype(np.int64)
            error = np.where(wrong, np.inf, 0.0)
        else:
            apart = np.abs(got.astype(np.float64) - exact.astype(np.float64))
            # A NaN compares as no error at all.
            error = np.nan_to_num(apart / (1 + np.abs(exact)), nan=np.inf)
        if error.max(initial=0.0) >= tolerance(signature.component):
            worst = tuple(map(int, np.unravel_index(error.argmax(), error.shape)))
            return f"{formal.name}{list(worst)}: {got[worst]}, expected {exact[worst]}"
    return ""


def judge_rows(
    forward: Forward, signature: ComponentSignature, sizes: Mapping[str, int]
) -> None:
    """Fail where a row-wise component differs from its oracle on a sample of rows.

    Of its first argument, x [batch, seq, n_in], each row [n_in] has a result of its
    own: the component computes all of them, the slow oracle at most SAMPLED_ROWS.
    """
    for case in cases(signature, sizes):
        found = forward(*passed(signature, case, bound=True))
        x, *rest = case.arguments
        rows = found.reshape(1, -1, found.shape[-1])
        count = rows.shape[1]
        rng = np.random.default_rng(count)
        chosen = np.sort(rng.permutation(count)[:SAMPLED_ROWS])
        if count:
            # The ends of the last block of rows are where a kernel goes wrong first.
            chosen = np.union1d(chosen, [0, count - 1])
        sample = replace(
            case, arguments=(x.reshape(1, count, x.shape[-1])[:, chosen], *rest)
        )
        wrong = difference(signature, rows[:, chosen], expected_of(signature, sample))
        assert not wrong, f"{signature.component} at {case}: {wrong} of {chosen}"


def judge(
    forward: Forward,
    signature: ComponentSignature,
    sizes: Mapping[str, int],
    bound: bool = False,
) -> None:
    """Fail where a component differs from its oracle at these sizes."""
    for case in cases(signature, sizes):
        found = forward(*passed(signature, case, bound))
        wrong = difference(signature, found, expected_of(signature, case))
        assert not wrong, f"{signature.component} at {case}: {wrong}"


def shapes(
    signature: ComponentSignature, fixed: Mapping[str, int]
) -> Iterator[dict[str, int]]:
    """Yield the sizes of a component whose other dims are bound."""
    tried: tuple[tuple[int, int], ...] = STEPS if "seq" in fixed else SHAPES
    if "seq" not in signature.dynamic:
        tried = tuple((batch, 1) for batch in sorted({batch for batch, _ in tried}))
    for batch, seq in tried:
        found = fitted(signature, {**fixed, "batch": batch, "seq": seq, "ctx": 0})
        yield {**found, **fixed}
