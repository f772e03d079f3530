"""Choose sizes and arguments for calls of a component from its signature.

Any component is served by its signature alone. What a family's arguments mean, such as
ids that end where a table does, stands in `tests/domains/<family>.py`:

    VALUES    argument, or "component.argument": how to draw it (see `Draw`)
    SCALARS   argument, or "component.argument": the numbers to try
    VARIANTS  component: how many kinds of input there are
    DIGITS    component: the largest error, of 1 + |y|, where it is not TOLERANCE
    fit       sizes that agree with each other, of sizes that may not
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from ingot.model.component import (
    ComponentSignature,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
    dims_of,
    is_optional,
    read_component,
)
from ingot.model.graph import Argument, Instance
from ingot.model.shapes import SymbolicType, TensorType
from ingot.programs.specialize.main import with_weight
from tests.outcomes import for_others
from tests.source_tree import closure

ROOT = Path(__file__).resolve().parent.parent
COMPONENTS = sorted(
    path.relative_to(ROOT / "components").with_suffix("").as_posix()
    for path in ROOT.glob("components/*/*.mlir")
)


def signature_of(variant: str) -> ComponentSignature:
    """Return the signature of a component, or of "family/component:weight".

    "family/component:alone" is a call that leaves out what is optional.
    """
    component, _, choice = variant.partition(":")
    signature = read_component(component, ROOT)
    if choice == ALONE:
        return signature.leaving_out(())
    return signature.with_weight(choice) if choice else signature


def text_of(variant: str) -> str:
    """Return the text of a component, or of "family/component:weight"."""
    component, _, choice = variant.partition(":")
    text = (ROOT / f"components/{component}.mlir").read_text("utf-8")
    return text if choice in ("", ALONE) else with_weight(text, choice)


ALONE = "alone"


def variants_of(component: str) -> list[str]:
    """Return a component with each type that its weight may have, and alone."""
    signature = read_component(component, ROOT)
    typed = [f"{component}:{weight}" for weight in signature.weights] or [component]
    has_optional = any(map(is_optional, signature.arguments))
    return [*typed, f"{component}:{ALONE}"] if has_optional else typed


# A test is of one of them; the others are other tests.
with for_others():
    VARIANTS = [variant for item in COMPONENTS for variant in variants_of(item)]
NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i1": np.bool_,
}
# Of 1 + |y|. f32 sums of up to 4864 products against float64; the largest is 8e-6.
TOLERANCE = 2e-5
# Positions of a cache beyond the longest sequence.
SPARE = 9

# batch, seq, and the sizes that the other dims take in the header's order: one, primes,
# a vector of 8 and what is one off it, several vectors and a rest, more than a block of
# 64 queries. Neighbours differ, since dims of one size hide that they were confused;
# and once there are more sequences than positions, since room for too many numbers
# hides that they were counted wrong.
ROWS: Mapping[str, tuple[int, int, tuple[int, ...]]] = {
    "ones": (1, 1, (1,)),
    "primes": (3, 7, (13, 5, 11, 3, 19, 17, 2)),
    "below": (9, 5, (7, 31, 15)),
    "vector": (1, 8, (8, 16, 32)),
    "above": (2, 17, (9, 33, 17)),
    "wide": (5, 69, (203, 67, 41)),
    "empty": (0, 5, (6, 10, 3)),
}
# Dims that mean the same wherever they are, by row.
HEADS: Mapping[str, Mapping[str, int]] = {
    "ones": {"n_head": 1, "n_head_kv": 1, "head_dim": 2, "n_rot": 2},
    "primes": {"n_head": 6, "n_head_kv": 3, "head_dim": 10, "n_rot": 4},
    "below": {"n_head": 3, "n_head_kv": 3, "head_dim": 14, "n_rot": 14},
    "vector": {"n_head": 4, "n_head_kv": 2, "head_dim": 8, "n_rot": 6},
    "above": {"n_head": 5, "n_head_kv": 1, "head_dim": 18, "n_rot": 16},
    "wide": {"n_head": 4, "n_head_kv": 2, "head_dim": 256, "n_rot": 64},
    "empty": {"n_head": 2, "n_head_kv": 1, "head_dim": 6, "n_rot": 4},
}
SCALARS: Mapping[str, tuple[float | int, ...]] = {
    "eps": (1e-12, 0.05),
    "scale": (0.625, 1.5),
    "cap": (2.0, 0.5),
    "layer": (1, 0),
    "window": (20, 3),
}


@dataclass(frozen=True, slots=True)
class Draw:
    """What one tensor argument is drawn from."""

    rng: np.random.Generator
    shape: tuple[int, ...]
    sizes: Mapping[str, int]
    variant: int  # 0 to VARIANTS - 1


@dataclass(frozen=True, slots=True)
class Case:
    """One call of a component."""

    sizes: Mapping[str, int]
    variant: int
    arguments: tuple[Any, ...]  # of the oracle: every argument, in order

    def __str__(self) -> str:
        """Return the sizes and the variant, as a failure names them."""
        sizes = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        return f"{sizes}, variant {self.variant}"


def domains(component: str) -> ModuleType | None:
    """Return what is known of a component's family, if anything is."""
    family = component.partition("/")[0]
    if not (ROOT / f"tests/domains/{family}.py").exists():
        return None
    return importlib.import_module(f"tests.domains.{family}")


def is_for_cpus(variant: str) -> bool:
    """Return whether a component's packed weights are for the vectors of a CPU."""
    return "_packed" in variant and "_packed_u32" not in variant


def tolerance(component: str) -> float:
    """Return the largest error of a component that passes, as a share of 1 + |y|."""
    digits: Mapping[str, float] = getattr(domains(component), "DIGITS", {})
    return digits.get(component.rpartition("/")[2], TOLERANCE)


def component_files(component: str, **_: object) -> set[str]:
    """Return what a test of a variant reads, beyond the code that it imports."""
    component = component.partition(":")[0]
    oracle, _function = read_component(component, ROOT).oracle
    domain = f"tests/domains/{component.partition('/')[0]}.py"
    found = {f"components/{component}.mlir"} | closure(oracle, nested=True)
    if (ROOT / domain).exists():
        found |= closure(domain, nested=True)
    return found


def known(component: str, table: str, name: str, default: Any) -> Any:
    """Return a family's entry for "component.name", or for "name"."""
    entries = getattr(domains(component), table, {})
    stem = component.rpartition("/")[2]
    return entries.get(f"{stem}.{name}", entries.get(name, default))


def row_sizes(signature: ComponentSignature, row: str) -> dict[str, int]:
    """Return every dim's size in a row, so that they agree with each other."""
    batch, seq, pool = ROWS[row]
    names = dict.fromkeys(n for item in signature.arguments for n in dims_of(item))
    given = {"batch": batch, "seq": seq, **HEADS[row]}
    others = [name for name in names if name not in given]
    sizes = {name: pool[i % len(pool)] for i, name in enumerate(others)}
    sizes |= {name: size for name, size in given.items() if name in names}
    return fitted(signature, sizes)


def fitted(signature: ComponentSignature, sizes: dict[str, int]) -> dict[str, int]:
    """Return the sizes, changed where a family says that they cannot go together."""
    if "ctx" in sizes and "seq" in sizes:
        sizes["ctx"] = sizes["seq"] + SPARE
    if "n_ctx" in sizes and "seq" in sizes:
        sizes["n_ctx"] = max(sizes["n_ctx"], sizes["seq"] + SPARE)
    for rule in signature.rules:
        size = max(sizes[rule.dim], rule.least)
        sizes[rule.dim] = size + size % 2 if rule.even else size
    fit: Callable[[str, dict[str, int]], dict[str, int]] | None
    fit = getattr(domains(signature.component), "fit", None)
    stem = signature.component.rpartition("/")[2]
    sizes = sizes if fit is None else fit(stem, sizes)
    return sizes | {
        rule.dim: sum(sizes[name] for name in rule.terms)
        for rule in signature.rules
        if rule.terms
    }


def cases(signature: ComponentSignature, sizes: Mapping[str, int]) -> Iterator[Case]:
    """Yield a call for each kind of input that the component has."""
    names = {formal.name for formal in signature.arguments}
    default = 4 if "mask" in names else 1
    stem = signature.component.rpartition("/")[2]
    count = getattr(domains(signature.component), "VARIANTS", {}).get(stem, default)
    seed = [zlib.crc32(signature.component.encode()), *sizes.values()]
    for variant in range(count):
        rng = np.random.default_rng([*seed, variant])
        arguments = tuple(
            _argument(signature.component, formal, rng, sizes, variant)
            for formal in signature.arguments
        )
        yield Case(sizes, variant, arguments)


def _argument(
    component: str,
    formal: TensorFormal | ScalarFormal | IndexFormal,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
    variant: int,
) -> Any:
    if isinstance(formal, IndexFormal):
        return sizes[formal.dim]
    if isinstance(formal, ScalarFormal):
        numbers = known(
            component, "SCALARS", formal.name, SCALARS.get(formal.name, None)
        )
        if callable(numbers):
            return numbers(sizes)
        assert numbers is not None, f"{component}: no number to try for %{formal.name}"
        number = numbers[(sum(sizes.values()) + variant) % len(numbers)]
        # What the component gets: f32 has no 0.1.
        return float(np.float32(number)) if formal.type == "f32" else number
    element = formal.type.element
    draw = Draw(rng, sized(formal.type, sizes), sizes, variant)
    make = known(component, "VALUES", formal.name, COMMON.get(formal.name))
    if make is not None:
        return np.asarray(make(draw)).astype(NUMPY[element])
    assert element not in ("i32", "i16"), (
        f"{component}: what are the values of %{formal.name}? Say so in tests/domains"
    )
    if element == "i1":
        return rng.integers(0, 2, draw.shape).astype(np.bool_)
    if element == "i8":
        return rng.integers(-127, 128, draw.shape, dtype=np.int8)
    return rng.standard_normal(draw.shape, dtype=np.float32).astype(NUMPY[element])


def mask(draw: Draw) -> np.ndarray:
    """Return a mask: no padding, mostly padded, nothing real, any numbers anywhere."""
    batch, seq = draw.shape
    if draw.variant == 3:
        return draw.rng.integers(-1, 3, draw.shape)
    if draw.variant == 1:
        lengths = np.maximum(1, seq // 8 * np.arange(batch))[:, None]
        return np.arange(seq) < lengths
    real = np.ones((batch, seq), np.int32)
    if draw.variant == 2:
        real[-1:] = 0
    return real


def start(draw: Draw) -> np.ndarray:
    """Return first positions with room behind them in the table or the cache."""
    sizes = draw.sizes
    room = min(sizes[name] for name in ("n_ctx", "ctx") if name in sizes)
    return draw.rng.integers(0, room - sizes["seq"] + 1, draw.shape)


COMMON: Mapping[str, Callable[[Draw], np.ndarray]] = {"mask": mask, "start": start}


def sized(kind: SymbolicType, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return a shape over the component's dims as numbers."""
    return tuple(
        dim.size * int(np.prod([sizes[name] for name in dim.names], dtype=int))
        for dim in kind.shape
    )


def instance_of(signature: ComponentSignature, sizes: Mapping[str, int]) -> Instance:
    """Return the instance of a component at sizes; other dims stay dynamic."""

    def argument(formal: TensorFormal) -> Argument:
        shape = tuple(
            dim.size * int(np.prod([sizes[name] for name in dim.names], dtype=int))
            if set(dim.names) <= set(sizes)
            else "*".join(dim.names)
            for dim in formal.type.shape
        )
        return Argument(formal.name, TensorType(shape, formal.type.element))

    words = (f"{name}_{size}" for name, size in sizes.items())
    formals = signature.arguments
    return Instance(
        name="__".join((signature.stem, *words)),
        component=signature.component,
        oracle=signature.oracle,
        dims=tuple(sizes.items()),
        indices=tuple(
            (item.name, sizes[item.dim])
            for item in formals
            if isinstance(item, IndexFormal)
        ),
        scalars=tuple(
            (item.name, item.type) for item in formals if isinstance(item, ScalarFormal)
        ),
        arguments=tuple(argument(i) for i in formals if isinstance(i, TensorFormal)),
        results=tuple(map(argument, signature.results)),
        weight=signature.weight,
        absent=signature.absent,
    )
