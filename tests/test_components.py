"""Every component, compiled for this machine and run, against its oracle.

Twice: as the file stands, all dims dynamic, and specialised to the dims of models. The
other targets run the same comparison in the check of every build.
"""

from __future__ import annotations

import importlib
import inspect
import json
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ingot.graph import Instance
from ingot.readers.component import (
    ComponentSignature,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
    parse_component,
    read_component,
)
from ingot.readers.manifest import read_manifest
from ingot.stages.specialize import plan_specialize
from ingot.values import Text
from tests.component_cases import (
    DYNAMIC_SIZES,
    SCALARS,
    SHAPES,
    SPARE,
    STEPS,
    masks,
    operands,
    pooled,
    real_instances,
)

ROOT = Path(__file__).resolve().parent.parent
COMPONENTS = sorted(
    path.relative_to(ROOT / "components").with_suffix("").as_posix()
    for path in ROOT.glob("components/*/*.mlir")
)
MODEL = read_manifest(ROOT / "models/all-minilm-l6-v2.yaml", ROOT)
INSTANCES = {item.name: item for item in MODEL.graph.instances} | real_instances()

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
# f32 sums of up to 4864 products against float64; the largest found is 8e-6.
TOLERANCE = 2e-5
EPS = float(SCALARS["eps"])

Forward = Callable[..., Any]


def run_tool(name: str, *arguments: str | Path) -> None:
    """Run a tool of the compiler; its words are the failure's."""
    tool = Path(sysconfig.get_path("scripts")) / name
    found = subprocess.run(
        [tool, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.fail(found.stderr, pytrace=False)


def compiled(source: Path, folder: Path, flags: tuple[str, ...]) -> Forward:
    """Compile a module, and return its `@forward`."""
    import iree.runtime

    vmfb = folder / "module.vmfb"
    run_tool("iree-compile", source, "-o", vmfb, *flags)
    config = iree.runtime.Config("local-sync")
    module = iree.runtime.VmModule.mmap(config.vm_instance, str(vmfb))
    forward: Forward = iree.runtime.load_vm_module(module, config).forward

    def call(*arguments: Any) -> Any:
        made = forward(*arguments)
        if isinstance(made, tuple):
            return tuple(item.to_host() for item in made)
        return made.to_host()

    return call


def specialized(instance: Instance, folder: Path) -> Path:
    """Return the file that the stage makes of an instance."""
    path = ROOT / "components" / f"{instance.component}.mlir"
    action = plan_specialize(instance, path)
    text = dict(action.inputs)["spec.json"]
    assert isinstance(text, Text)
    output = folder / f"{instance.name}.mlir"
    specification = json.loads(text.text) | {"output": str(output)}
    (folder / "spec.json").write_text(json.dumps(specification), "utf-8")
    program = ("-m", "ingot.stages.specialize", folder / "spec.json")
    subprocess.run([sys.executable, *program], cwd=ROOT, check=True)
    return output


def largest_error(
    forward: Forward,
    signature: ComponentSignature,
    fixed: dict[str, int],
    indices: tuple[int, ...],
) -> float:
    """Return the largest absolute error over all shapes and masks."""
    formals = signature.arguments
    scalars = [SCALARS[item.name] for item in formals if isinstance(item, ScalarFormal)]
    names = [item.name for item in formals if isinstance(item, TensorFormal)]
    oracle = oracle_of(signature)
    worst = 0.0
    for batch, seq in STEPS if "seq" in fixed else SHAPES:
        sizes = fixed | {"batch": batch, "seq": seq, "ctx": seq + SPARE}
        if "block_table" in names:
            sizes |= pooled(sizes)
        cases = list(masks(batch, seq))[: None if "mask" in names else 1]
        for mask in cases:
            tensors = operands(signature, sizes, mask)
            made = oracle(*tensors, *scalars, *fixed_indices(signature, fixed))
            got = forward(*tensors, *scalars, *indices)
            several = isinstance(made, tuple)
            pairs = zip(got, made, strict=True) if several else ((got, made),)
            for found, expected in pairs:
                assert found.shape == expected.shape
                # A NaN compares as no error at all.
                assert np.isfinite(found).all()
                worst = max(worst, float(np.abs(found - expected).max()))
    return worst


def oracle_of(signature: ComponentSignature) -> Forward:
    """Return the function that the header names."""
    file, function = signature.oracle
    module = importlib.import_module(file.removesuffix(".py").replace("/", "."))
    oracle: Forward = getattr(module, function)
    return oracle


def fixed_indices(
    signature: ComponentSignature, fixed: dict[str, int]
) -> tuple[int, ...]:
    """Return the sizes of the `index` arguments, in order."""
    return tuple(
        fixed[item.dim] for item in signature.arguments if isinstance(item, IndexFormal)
    )


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_is_valid_as_it_stands(component: str) -> None:
    run_tool("iree-opt", ROOT / f"components/{component}.mlir", "-o", "/dev/null")


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_argument_is_used(component: str) -> None:
    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    code = re.sub(r"//.*", "", text)
    for formal in read_component(component, ROOT).arguments:
        uses = len(re.findall(rf"%{formal.name}\b", code)) - 1
        assert uses > 0, f"%{formal.name} is not used"


@pytest.mark.parametrize("component", COMPONENTS)
def test_no_64_bit_integers_which_portable_vulkan_lacks(component: str) -> None:
    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    assert not re.search(r"\bi64\b|xi64\b", text)


@pytest.mark.parametrize("component", COMPONENTS)
def test_oracle_takes_the_arguments_of_the_component(component: str) -> None:
    signature = read_component(component, ROOT)
    expected = [formal.name for formal in signature.arguments]
    assert list(inspect.signature(oracle_of(signature)).parameters) == expected


@pytest.mark.parametrize("component", COMPONENTS)
def test_dynamic_component_computes_its_oracle(component: str, tmp_path: Path) -> None:
    signature = read_component(component, ROOT)
    source = ROOT / f"components/{component}.mlir"
    forward = compiled(source, tmp_path, FLAGS)
    indices = fixed_indices(signature, DYNAMIC_SIZES)
    assert largest_error(forward, signature, DYNAMIC_SIZES, indices) < TOLERANCE


@pytest.mark.parametrize("name", INSTANCES)
def test_specialized_component_computes_its_oracle(name: str, tmp_path: Path) -> None:
    instance = INSTANCES[name]
    signature = read_component(instance.component, ROOT)
    bound = {dim: size for dim, size in instance.dims if size is not None}
    fixed = bound | dict(instance.indices)
    forward = compiled(specialized(instance, tmp_path), tmp_path, FLAGS + FAST_FLAGS)
    assert largest_error(forward, signature, fixed, ()) < TOLERANCE


def test_gelu_erf_is_right_to_3e_7_everywhere(tmp_path: Path) -> None:
    source = ROOT / "components/activation/gelu_erf.mlir"
    forward = compiled(source, tmp_path, FLAGS)
    near = np.linspace(-8, 8, 100_000, dtype=np.float32)[None, None]
    expected = oracle_of(read_component("activation/gelu_erf", ROOT))(near)
    # Half a step of f32 between 4 and 8 is 2.4e-7 of it.
    assert np.abs(forward(near) - expected).max() < 3e-7
    far = np.array([[[-np.inf, -1e30, -20, 20, 1e30, np.inf]]], np.float32)
    np.testing.assert_allclose(forward(far), np.maximum(far, 0), rtol=0, atol=1e-30)
    assert np.isnan(forward(np.full((1, 1, 1), np.nan, np.float32))).all()


@pytest.mark.parametrize(
    ("component", "operand_count", "scalars"),
    [
        ("activation/geglu_tanh", 2, ()),
        ("activation/swiglu", 2, ()),
        ("elementwise/soft_cap", 1, (1.0,)),
        ("elementwise/soft_cap", 1, (30.0,)),
    ],
)
def test_curve_is_right_to_6_digits_everywhere(
    component: str, operand_count: int, scalars: tuple[float, ...], tmp_path: Path
) -> None:
    forward = compiled(ROOT / f"components/{component}.mlir", tmp_path, FLAGS)
    far = np.geomspace(1e-8, 1e4, 20_000)
    points = np.concatenate([-far, np.linspace(-10, 10, 20_000), far])
    x = points.astype(np.float32)[None, None]
    tensors = (x, np.ones_like(x))[:operand_count]
    expected = oracle_of(read_component(component, ROOT))(*tensors, *scalars)
    # Of each result, but where it is next to nothing: a step of exp's argument, 11 at
    # -4.7 and 23 where this ends, is 2e-6 of exp.
    np.testing.assert_allclose(forward(*tensors, *scalars), expected, 3e-6, 1e-9)


def test_layer_norm_keeps_its_digits_where_the_mean_is_large(tmp_path: Path) -> None:
    source = ROOT / "components/normalization/layer_norm.mlir"
    forward = compiled(source, tmp_path, FLAGS)
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, 3, 384)) + 1000).astype(np.float32)
    ones, zeros = np.ones(384, np.float32), np.zeros(384, np.float32)
    expected = oracle_of(read_component("normalization/layer_norm", ROOT))(
        x, ones, zeros, EPS
    )
    # Rounding the sum, 384,000, moves the mean by 4e-4; E[x^2] - E[x]^2 has one digit.
    assert np.abs(forward(x, ones, zeros, EPS) - expected).max() < 1e-3


def test_the_example_of_the_guide_works(tmp_path: Path) -> None:
    guide = (ROOT / "docs/writing-a-component.md").read_text("utf-8")
    text, code = (
        re.findall(rf"```{kind}\n(.*?)```", guide, re.DOTALL)[0]
        for kind in ("mlir", "python")
    )
    signature = parse_component(text, "normalization/rms_norm")
    source = tmp_path / "rms_norm.mlir"
    source.write_text(text, "utf-8")
    forward = compiled(source, tmp_path, FLAGS)
    names: dict[str, Any] = {"np": np, "NDArray": NDArray, "Floats": np.ndarray}
    exec(code, names)
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((5, 15)), rng.standard_normal(15)
    tensors = (x.astype(np.float32), weight.astype(np.float32))
    assert [formal.name for formal in signature.arguments] == ["x", "weight", "eps"]
    expected = names["rms_norm"](*tensors, EPS)
    assert np.abs(forward(*tensors, EPS) - expected).max() < TOLERANCE
