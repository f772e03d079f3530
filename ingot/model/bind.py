"""One node and its component's signature in, the instance and its values' types out.

The component's dims are its own; binding finds what each stands for here, argument by
argument, and says at the argument where that contradicts what was found before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import NodeSection
from ingot.model.component import (
    ComponentSignature,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
)
from ingot.model.dims import Product, parse_dim
from ingot.model.graph import Argument, Instance
from ingot.model.shapes import SymbolicType

LAYER = "{layer}"

Report = Callable[..., ManifestError]
"""Makes an error at one place, of a message and a hint."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a model declares: the names that nodes may use."""

    sizes: Mapping[str, int | None]  # dims; None for those that stay dynamic
    numbers: Mapping[str, float | int]  # hyperparameters
    # By name with {layer}; None: the declaration is wrong and was reported.
    parameters: Mapping[str, SymbolicType | None]
    # Parameters that another one serves for.
    tied: Mapping[str, str] = field(default_factory=dict)
    # Dims that are dynamic elsewhere and have one size in this entry point.
    fixed: Mapping[str, int] = field(default_factory=dict)

    def fix(self, dims: Mapping[str, int]) -> Scope:
        """Return the scope of an entry point in which these dims have a size."""
        return replace(self, sizes={**self.sizes, **dims}, fixed=dims)


@dataclass(frozen=True, slots=True)
class Given:
    """A tensor handed to a component: what it is called, where, and its type."""

    name: str
    error: Report  # makes an error where it is given
    type: SymbolicType | None  # None: its own definition is wrong and was reported


@dataclass(frozen=True, slots=True)
class Bound:
    """A node that fits its component."""

    instance: Instance
    scalars: tuple[float | int, ...]
    layered: tuple[int, ...]  # which of the scalars are the layer's number
    results: tuple[SymbolicType, ...]


def bind(
    node: NodeSection,
    signature: ComponentSignature,
    tensors: Mapping[str, Given],
    scope: Scope,
    errors: list[ManifestError],
) -> Bound | None:
    """Return the node bound to its component; None, errors added, if it does not fit.

    `tensors` has what the node gives, by the component's argument.
    """
    before = len(errors)
    signature = _with_weight_of(signature, tensors)
    errors += _check_names(node, signature, tensors)
    binding = Binding(signature, scope, errors)
    scalars: list[float | int] = []
    layered: list[int] = []
    for formal in signature.arguments:
        value = node.attributes.get(formal.name)
        if value is None:
            continue
        error = partial(node.at.error, f"attributes.{formal.name}")
        if isinstance(formal, IndexFormal):
            binding.index(formal, value, error)
        elif isinstance(formal, ScalarFormal):
            if value == LAYER:
                layered.append(len(scalars))
            scalars.append(_number(value, formal, scope, errors, error))
    unbound = any(
        isinstance(formal, IndexFormal) and formal.dim not in binding.dims
        for formal in signature.arguments
    )
    if unbound or any(given.type is None for given in tensors.values()):
        return None
    for formal in signature.arguments:
        if isinstance(formal, TensorFormal) and formal.name in tensors:
            binding.tensor(formal, tensors[formal.name])
    if len(errors) > before:
        return None
    binding.check_sizes(node)
    if len(errors) > before:
        return None
    instance = binding.instance()
    results = tuple(item.type.substitute(binding.dims) for item in signature.results)
    return Bound(instance, tuple(scalars), tuple(layered), results)


def _with_weight_of(
    signature: ComponentSignature, tensors: Mapping[str, Given]
) -> ComponentSignature:
    """Return the signature with the weight's type that a node gives, if it may."""
    for formal in signature.arguments:
        given = tensors.get(formal.name)
        if isinstance(formal, TensorFormal) and formal.is_weight and given:
            element = given.type.element if given.type else ""
            if element in signature.weights:
                return signature.with_weight(element)
    return signature


@dataclass(slots=True)
class Binding:
    """What each of the component's dims stands for, as far as it is known."""

    signature: ComponentSignature
    scope: Scope
    errors: list[ManifestError]
    dims: dict[str, Product] = field(default_factory=dict)

    def index(
        self, formal: IndexFormal, value: str | int | float, error: Report
    ) -> None:
        """Bind the dim of an `index` argument to an attribute."""
        if isinstance(value, int):
            self.dims[formal.dim] = Product.of(value)
            return
        if isinstance(value, str):
            dim = parse_dim(value)
            unknown = [name for name in dim.names if name not in self.scope.sizes]
            if not unknown:
                self.fix(formal.dim, dim, error)
                return
            hint = did_you_mean(unknown[0], list(self.scope.sizes), "dims")
            self.errors.append(error(f"no dim named '{unknown[0]}'", hint))
        else:
            self.errors.append(error(f"expected a dim or a size, found {value}"))
        self.dims[formal.dim] = Product.of(1, formal.dim)

    def tensor(self, formal: TensorFormal, given: Given) -> None:
        """Bind the dims of a tensor argument, or say that it does not fit."""
        assert given.type is not None
        wanted, found = formal.type, given.type
        fits = wanted.element == found.element and len(wanted.shape) == len(found.shape)
        if fits:
            for dim, actual in zip(wanted.shape, found.shape, strict=True):
                fits = self.unify(dim, actual, given.error) and fits
        if not fits:
            expected = wanted.substitute(self.dims)
            message = (
                f"'{given.name}' does not fit '{self.signature.component}'; "
                f"expected {expected}, found {found}"
            )
            hint = f"{formal.position}: %{formal.name} is {wanted}"
            if formal.is_weight:
                hint += f", of {', '.join(self.signature.weights)}"
            self.errors.append(given.error(message, hint + self.sizes(wanted)))

    def unify(self, formal: Product, actual: Product, error: Report) -> bool:
        """Bind what is unknown in a formal dim; False where both cannot be equal."""
        known = formal.substitute(
            {name: self.dims.get(name, Product.of(1)) for name in formal.names}
        )
        unknown = [name for name in formal.names if name not in self.dims]
        if not unknown:
            return known == actual
        rest = actual.divided_by(known)
        if rest is None or len(unknown) > 1:
            return False
        self.fix(unknown[0], rest, error)
        return True

    def fix(self, name: str, actual: Product, error: Report) -> None:
        """Bind one of the component's dims."""
        self.dims[name] = actual
        dynamic = [item for item in actual.names if self.scope.sizes[item] is None]
        if dynamic and name not in self.signature.dynamic:
            message = (
                f"'{name}' of '{self.signature.component}' is fixed by specialize, "
                f"but '{dynamic[0]}' stays dynamic"
            )
            self.errors.append(error(message))

    def check_sizes(self, node: NodeSection) -> None:
        """Add an error for each size that is not as the component asks for it."""
        found = {name: dim.resolve(self.scope.sizes) for name, dim in self.dims.items()}
        sizes = {name: size for name, size in found.items() if isinstance(size, int)}
        for rule in self.signature.rules:
            for wrong in rule.broken(sizes):
                message = f"'{rule.dim}' of '{self.signature.component}' {wrong}"
                hint = f"{rule.position}: {rule.text}"
                self.errors.append(node.at.error("uses", message, hint))

    def sizes(self, wanted: SymbolicType) -> str:
        """Return what a formal type's dims stand for here: `, with n_in = n_embd`."""
        known = [
            f"{name} = {self.dims[name]}"
            for name in wanted.names
            if name in self.dims and str(self.dims[name]) != name
        ]
        return f", with {', '.join(known)}" if known else ""

    def instance(self) -> Instance:
        """Return the instance that a complete binding makes."""
        sizes = self.scope.sizes
        bound: dict[str, int | None] = {}
        for name, dim in self.dims.items():
            size = dim.resolve(sizes)
            bound[name] = size if isinstance(size, int) else None
        tensors = [a for a in self.signature.arguments if isinstance(a, TensorFormal)]
        shown = dict.fromkeys(name for item in tensors for name in item.type.names)
        indices = [a for a in self.signature.arguments if isinstance(a, IndexFormal)]
        named = dict.fromkeys((*shown, *(item.dim for item in indices)))
        suffixes = [
            f"{name}_{bound[name]}" for name in named if bound[name] is not None
        ]
        return Instance(
            name="__".join((self.signature.stem, *suffixes)),
            component=self.signature.component,
            oracle=self.signature.oracle,
            dims=tuple((name, bound[name]) for name in shown),
            indices=tuple((item.name, bound[item.dim] or 0) for item in indices),
            scalars=tuple(
                (item.name, item.type)
                for item in self.signature.arguments
                if isinstance(item, ScalarFormal)
            ),
            arguments=tuple(
                Argument(a.name, a.type.resolve(bound), a.limit) for a in tensors
            ),
            results=tuple(
                Argument(item.name, item.type.resolve(bound))
                for item in self.signature.results
            ),
            weight=self.signature.weight,
        )


def _check_names(
    node: NodeSection, signature: ComponentSignature, tensors: Mapping[str, Given]
) -> Iterator[ManifestError]:
    """Yield each argument that is missing, unknown or in the wrong place."""
    formals = {formal.name: formal for formal in signature.arguments}
    given = {
        "operands": node.operands,
        "parameters": node.parameters,
        "attributes": node.attributes,
    }
    for section, names in given.items():
        for name in names:
            error = partial(node.at.key_error, section, name)
            formal = formals.get(name)
            is_tensor = isinstance(formal, TensorFormal)
            if formal is None:
                hint = did_you_mean(name, list(formals), "arguments")
                yield error(f"'{signature.component}' has no argument '{name}'", hint)
            elif is_tensor == (section == "attributes"):
                place = "operands or parameters" if is_tensor else "attributes"
                kind = "a tensor" if is_tensor else "a number"
                message = f"'{name}' of '{signature.component}' is {kind}"
                yield error(message, f"move it to {place}")
            elif section == "parameters" and name in node.operands:
                yield error(f"'{name}' is given twice; first under operands")
    for formal in signature.arguments:
        is_tensor = isinstance(formal, TensorFormal)
        if formal.name not in (tensors if is_tensor else node.attributes):
            place = "operands or parameters" if is_tensor else "attributes"
            message = f"'{formal.name}' of '{signature.component}' is missing"
            hint = f"give it under {place}; see {formal.position}"
            yield node.at.error("uses", message, hint)


def _number(
    value: str | int | float,
    formal: ScalarFormal,
    scope: Scope,
    errors: list[ManifestError],
    error: Report,
) -> float | int:
    """Return the number that an attribute gives to a scalar argument."""
    if value == LAYER:
        # The layers are numbered when the entry point is written out.
        value = 0
    if isinstance(value, str):
        size = scope.sizes.get(value)
        if value not in scope.numbers and size is None:
            hint = did_you_mean(value, list(scope.numbers), "hyperparameters")
            errors.append(error(f"no hyperparameter named '{value}'", hint))
            return 0
        value = scope.numbers[value] if size is None else size
    if formal.type.startswith("f"):
        return float(value)
    if isinstance(value, float):
        message = f"expected an integer for {formal.type} '{formal.name}'"
        errors.append(error(f"{message}, found {value}"))
        return 0
    return value
