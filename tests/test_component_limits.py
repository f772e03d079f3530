"""Test that a size or use that a component does not declare is an error at its line."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from ingot.errors import ManifestError
from ingot.model.architecture_schema import NodeSection
from ingot.model.bind import Bound, GivenTensor, Scope, bind
from ingot.model.component import (
    Components,
    ComponentSignature,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
    dims_of,
    read_component,
)
from ingot.model.schema_types import build
from ingot.model.shapes import Product, SymbolicType
from ingot.model.yaml_nodes import parse
from tests.project import ROOT

# The rules are the same for all: tensors, numbers and sizes, and dims that are sums.
COMPONENTS = (
    "attention/attention_causal",
    "linear/linear_packed_i8_block32",
    "shape/concat",
)
TENSORS = [
    (component, formal.name)
    for component in COMPONENTS
    for formal in read_component(component, ROOT).arguments
    if isinstance(formal, TensorFormal)
]
IDS = [f"{component}-{name}" for component, name in TENSORS]


def node_of(signature: ComponentSignature) -> NodeSection:
    """Return a node that gives the component all that it asks for."""
    operands, attributes = [], []
    for formal in signature.arguments:
        if isinstance(formal, TensorFormal):
            operands.append(f"{formal.name}: {formal.name}")
        elif isinstance(formal, IndexFormal):
            attributes.append(f"{formal.name}: {formal.dim}")
        else:
            attributes.append(f"{formal.name}: 1")
    return section(
        f"name: node\nuses: {signature.component}\n"
        f"operands: {{{', '.join(operands)}}}\n"
        f"attributes: {{{', '.join(attributes)}}}\n"
    )


def section(text: str) -> NodeSection:
    """Return the node that YAML text describes."""
    found, errors = build(parse(text, "architecture.yaml"), NodeSection)
    assert not errors
    assert found is not None
    return found


def bound(
    signature: ComponentSignature,
    changed: dict[str, SymbolicType],
    left_out: Collection[str] = (),
    **other: int,
) -> tuple[Bound | None, list[ManifestError]]:
    """Bind the component to its own types, some of them changed.

    Fixed dims are 8 each, or what `other` says, and the sum of two of them is 16.
    """
    formals = tuple(i for i in signature.arguments if i.name not in left_out)
    node, errors = node_of(replace(signature, arguments=formals)), list[ManifestError]()
    names = {name for item in signature.arguments for name in dims_of(item)}
    sizes = {n: None if n in signature.dynamic else 8 for n in names}
    sizes |= {rule.dim: 16 for rule in signature.rules if rule.terms} | other
    tensors = {
        item.name: GivenTensor(
            item.name,
            node.at.part(f"operands.{item.name}"),
            changed.get(item.name, item.type),
        )
        for item in formals
        if isinstance(item, TensorFormal)
    }
    found = bind(node, signature, tensors, Scope(sizes, {}, Components(ROOT), errors))
    return found, errors


def refused(component: str, name: str, kind: SymbolicType) -> str:
    """Return the error for a tensor of another type."""
    signature = read_component(component, ROOT)
    assert bound(signature, {})[1] == []
    found, errors = bound(signature, {name: kind})
    assert found is None
    formal = next(item for item in signature.arguments if item.name == name)
    line = (
        (ROOT / formal.position.path)
        .read_text("utf-8")
        .splitlines()[formal.position.line - 1]
    )
    assert f"%{name}: " in line
    told = [error for error in errors if f"'{name}' does not fit" in str(error)]
    assert told, errors
    assert isinstance(formal, TensorFormal)
    hint = f"{formal.position}: %{name} is {formal.type}"
    assert str(told[0]).splitlines()[1].strip().startswith(hint)
    return str(told[0])


def formal_of(component: str, name: str) -> TensorFormal:
    """Return the tensor argument of that name."""
    formals = read_component(component, ROOT).arguments
    found = next(item for item in formals if item.name == name)
    assert isinstance(found, TensorFormal)
    return found


def test_what_may_be_left_out_is_not_asked_for() -> None:
    signature = read_component("attention/attention_causal", ROOT)
    (given, _), (alone, _) = (
        bound(signature, {}, left_out, n_head=4, n_head_kv=2, block_size=16)
        for left_out in ((), ("sink", "block_size"))
    )
    assert given
    assert alone
    assert alone.instance.absent == (10,)
    assert dict(alone.instance.indices)["block_size"] == 64
    assert [given.instance.name, alone.instance.name] == [
        "attention_causal_sink__n_head_4__head_dim_8__n_layer_8__n_head_kv_2"
        "__block_size_16",
        "attention_causal__n_head_4__head_dim_8__n_layer_8__n_head_kv_2",
    ]
    found, errors = bound(signature, {}, ("sink", "layer"))
    assert found is None
    assert "'layer' of 'attention/attention_causal' is missing" in str(errors[0])


@pytest.mark.parametrize(("component", "name"), TENSORS, ids=IDS)
def test_another_element_type_is_refused(component: str, name: str) -> None:
    kind = formal_of(component, name).type
    floating = kind.element in ("f32", "bf16")
    other = replace(kind, element="i32" if floating else "f32")
    assert f"found {other}" in refused(component, name, other)


@pytest.mark.parametrize(("component", "name"), TENSORS, ids=IDS)
def test_another_rank_is_refused(component: str, name: str) -> None:
    kind = formal_of(component, name).type
    other = replace(kind, shape=(*kind.shape, Product.of(1)))
    assert f"found {other}" in refused(component, name, other)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_dim_that_disagrees_with_an_earlier_argument_is_refused(
    component: str,
) -> None:
    signature = read_component(component, ROOT)
    seen: set[str] = set()
    for formal in signature.arguments:
        if not isinstance(formal, TensorFormal):
            continue
        for axis, dim in enumerate(formal.type.shape):
            if len(dim.names) == 1 and dim.names[0] in seen:
                shape = list(formal.type.shape)
                shape[axis] = dim.times(Product.of(2))
                other = replace(formal.type, shape=tuple(shape))
                refused(component, formal.name, other)
        seen.update(formal.type.names)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_dynamic_size_where_one_is_fixed_is_refused(component: str) -> None:
    signature = read_component(component, ROOT)
    fixed = [
        name
        for item in signature.arguments
        if isinstance(item, TensorFormal)
        for name in item.type.names
        if name not in signature.dynamic
    ]
    for name in dict.fromkeys(fixed):
        kinds = {
            item.name: item.type.substitute({name: Product.of(1, "batch")})
            for item in signature.arguments
            if isinstance(item, TensorFormal)
        }
        if any(
            isinstance(i, IndexFormal) and i.dim == name for i in signature.arguments
        ):
            continue
        _, errors = bound_with_batch(signature, kinds)
        said = f"'{name}' of '{component}' is fixed by specialize, but 'batch' stays"
        assert any(said in str(error) for error in errors), errors


@pytest.mark.parametrize("component", ["shape/concat", "shape/split_at"])
def test_a_sum_that_is_not_as_large_as_its_parts_is_refused(component: str) -> None:
    signature = read_component(component, ROOT)
    (found,) = signature.rules
    node, errors = bound(signature, {}, n_embd=15)
    line = (ROOT / found.position.path).read_text("utf-8").splitlines()
    assert "n_embd = n_left + n_right" in line[found.position.line - 1]
    assert node is None
    assert [str(error).split("uses: ")[1] for error in errors] == [
        f"'n_embd' of '{component}' is a sum; expected 8 + 8, found 15\n"
        f"  {found.position}: n_embd = n_left + n_right"
    ]


def test_a_row_that_its_heads_cannot_share_is_refused() -> None:
    component = "attention/attention_bidirectional"
    signature = read_component(component, ROOT)
    node, errors = bound(signature, {}, n_embd=32, n_head=5)
    (rule,) = (rule for rule in signature.rules if rule.unit)
    assert node is None
    assert [str(error).split("uses: ")[1] for error in errors] == [
        f"'n_embd' of '{component}' is of equal parts; expected a multiple of"
        f" n_head = 5, found 32\n  {rule.position}: n_embd multiple of n_head"
    ]


@pytest.mark.parametrize(
    ("component", "size", "expected"),
    [
        (
            "attention/attention_causal",
            2,
            ["is too small; expected 4 or more, found 2"],
        ),
        (
            "attention/attention_causal",
            3,
            [
                "is too small; expected 4 or more, found 3",
                "is odd; expected an even number, found 3",
            ],
        ),
        ("attention/attention_paged", 7, ["is odd; expected an even number, found 7"]),
        (
            "attention/attention_bidirectional",
            1,
            ["is too small; expected 2 or more, found 1"],
        ),
        (
            "elementwise/cast_f32_to_bf16",
            9,
            ["is odd; expected an even number, found 9"],
        ),
    ],
)
def test_a_size_that_the_header_refuses_is_refused(
    component: str, size: int, expected: list[str]
) -> None:
    signature = read_component(component, ROOT)
    (rule,) = (rule for rule in signature.rules if not rule.unit)
    _, errors = bound(signature, {}, (), **{rule.dim: size})
    line = (ROOT / rule.position.path).read_text("utf-8").splitlines()
    assert any(rule.text in text for text in line[rule.position.line - 1 :][:2])
    assert [str(error) for error in errors] == [
        f"architecture.yaml:2:7: uses: '{rule.dim}' of '{component}' {words}\n"
        f"  {rule.position}: {rule.text}"
        for words in expected
    ]


def bound_with_batch(
    signature: ComponentSignature, kinds: dict[str, SymbolicType]
) -> tuple[Bound | None, list[ManifestError]]:
    """Bind where `batch` stays dynamic, whether the component has it or not."""
    dims = signature.header.dims | {"batch": "dynamic"}
    with_batch = replace(signature, header=replace(signature.header, dims=dims))
    node, errors = node_of(with_batch), list[ManifestError]()
    names = {name for item in signature.arguments for name in dims_of(item)}
    sizes = {n: None if n in with_batch.dynamic else 8 for n in names | {"batch"}}
    tensors = {
        name: GivenTensor(name, node.at.part(f"operands.{name}"), kind)
        for name, kind in kinds.items()
    }
    found = bind(node, signature, tensors, Scope(sizes, {}, Components(ROOT), errors))
    return found, errors


def test_numbers_are_no_tensors_and_tensors_no_numbers() -> None:
    signature = read_component("shape/slice", ROOT)
    kinds = {item.name: type(item) for item in signature.arguments}
    assert kinds == {"x": TensorFormal, "first": ScalarFormal, "n_keep": IndexFormal}
    node = section(
        "name: node\nuses: shape/slice\n"
        "operands: {x: x, first: first}\nattributes: {n_keep: 4}\n"
    )
    errors: list[ManifestError] = []
    tensors = {
        name: GivenTensor(
            name,
            node.at.part(f"operands.{name}"),
            formal_of("shape/slice", "x").type,
        )
        for name in ("x", "first")
    }
    sizes = {"batch": None, "seq": None, "n_embd": 8}
    assert (
        bind(node, signature, tensors, Scope(sizes, {}, Components(ROOT), errors))
        is None
    )
    assert any(
        "'first' of 'shape/slice' is a number\n  move it to attributes" in str(error)
        for error in errors
    )
