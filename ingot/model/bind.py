"""Bind a node to its component: find what each of the component's dims is here.

The component's dims are its own. Binding finds what each stands for, argument by
argument, and reports the argument that contradicts what was found before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ingot.errors import ManifestError, did_you_mean
from ingot.model.architecture_schema import BlockSection, Given, NodeSection
from ingot.model.component import (
    Components,
    ComponentSignature,
    IndexFormal,
    ScalarFormal,
    TensorFormal,
)
from ingot.model.graph import Argument, Instance
from ingot.model.schema_types import Place
from ingot.model.shapes import Product, SymbolicType, parse_dim

LAYER = "{layer}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What the nodes of a model may name, and the mistakes found in it so far."""

    sizes: Mapping[str, int | None]  # dims; None for those that stay dynamic
    numbers: Mapping[str, float | int]  # hyperparameters
    components: Components
    errors: list[ManifestError]
    # By name with {layer}; None: the declaration is wrong and was reported.
    parameters: Mapping[str, SymbolicType | None] = field(default_factory=dict)
    blocks: Mapping[str, BlockSection] = field(default_factory=dict)
    # Parameters that another one replaces.
    tied: Mapping[str, str] = field(default_factory=dict)
    # Dims that are dynamic elsewhere and have one size in this entry point.
    fixed: Mapping[str, int] = field(default_factory=dict)

    def error(self, at: Place, message: str, hint: str = "") -> None:
        """Report a mistake at a place."""
        self.errors.append(at.error("", message, hint))


@dataclass(frozen=True, slots=True)
class GivenTensor:
    """A tensor that a node gives to a component: its name, its place and its type."""

    name: str
    at: Place
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
    tensors: Mapping[str, GivenTensor],
    scope: Scope,
) -> Bound | None:
    """Return the node bound to its component; report why it does not fit, if so.

    `tensors` has what the node gives, by the component's argument.
    """
    before = len(scope.errors)
    signature = _with_weight_of(signature, tensors)
    signature = signature.leaving_out(tensors)
    scope.errors.extend(_check_names(node, signature, tensors))
    binding = Binding(signature, scope.sizes, scope.errors)
    scalars: list[float | int] = []
    layered: list[int] = []
    for formal in signature.arguments:
        value = node.attributes.get(formal.name)
        if value is None and isinstance(formal, IndexFormal) and formal.default:
            value = formal.default
        if value is None:
            continue
        at = node.at.part(f"attributes.{formal.name}")
        if isinstance(formal, IndexFormal):
            binding.index(formal, value, at)
        elif isinstance(formal, ScalarFormal):
            if value == LAYER:
                layered.append(len(scalars))
            scalars.append(_number(value, formal, scope, at))
    unbound = any(
        isinstance(formal, IndexFormal) and formal.dim not in binding.dims
        for formal in signature.arguments
    )
    if unbound or any(given.type is None for given in tensors.values()):
        return None
    for formal in signature.arguments:
        if isinstance(formal, TensorFormal) and formal.name in tensors:
            binding.tensor(formal, tensors[formal.name])
    if len(scope.errors) == before:
        binding.check_sizes(node.at.part("uses"))
    if len(scope.errors) > before:
        return None
    results = tuple(item.type.substitute(binding.dims) for item in signature.results)
    return Bound(binding.instance(), tuple(scalars), tuple(layered), results)


def _with_weight_of(
    signature: ComponentSignature, tensors: Mapping[str, GivenTensor]
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
    known_sizes: Mapping[str, int | None]  # of the model's dims
    errors: list[ManifestError] = field(default_factory=list)
    dims: dict[str, Product] = field(default_factory=dict)

    def index(self, formal: IndexFormal, value: Given, at: Place) -> None:
        """Bind the dim of an `index` argument to an attribute."""
        self.dims[formal.dim] = Product.of(1, formal.dim)
        if isinstance(value, float):
            message = f"expected a dim or a size, found {value}"
            self.errors.append(at.error("", message))
            return
        dim = parse_dim(str(value))
        unknown = [name for name in dim.names if name not in self.known_sizes]
        if unknown:
            hint = did_you_mean(unknown[0], list(self.known_sizes), "dims")
            self.errors.append(at.error("", f"no dim named '{unknown[0]}'", hint))
        else:
            self.fix(formal.dim, dim, at)

    def tensor(self, formal: TensorFormal, given: GivenTensor) -> None:
        """Bind the dims of a tensor argument, or report that it does not fit."""
        assert given.type is not None
        wanted, found = formal.type, given.type
        if self.unify(wanted, found, given.at):
            return
        expected = wanted.substitute(self.dims)
        message = f"'{given.name}' does not fit '{self.signature.component}'"
        message = f"{message}; expected {expected}, found {found}"
        hint = f"{formal.position}: %{formal.name} is {wanted}"
        if formal.is_weight:
            hint += f", of {', '.join(self.signature.weights)}"
        known = [
            f"{name} = {self.dims[name]}"
            for name in wanted.names
            if name in self.dims and str(self.dims[name]) != name
        ]
        hint += f", with {', '.join(known)}" if known else ""
        self.errors.append(given.at.error("", message, hint))

    def unify(self, formal: SymbolicType, actual: SymbolicType, at: Place) -> bool:
        """Bind what is unknown in a formal type; False where both cannot be equal."""
        if (formal.element, len(formal.shape)) != (actual.element, len(actual.shape)):
            return False
        fits = True
        for wanted, found in zip(formal.shape, actual.shape, strict=True):
            fits = self._unify(wanted, found, at) and fits
        return fits

    def _unify(self, formal: Product, actual: Product, at: Place) -> bool:
        known = formal.substitute(
            {name: self.dims.get(name, Product.of(1)) for name in formal.names}
        )
        unknown = [name for name in formal.names if name not in self.dims]
        if not unknown:
            return known == actual
        rest = actual.divided_by(known)
        if rest is None or len(unknown) > 1:
            return False
        self.fix(unknown[0], rest, at)
        return True

    def fix(self, name: str, actual: Product, at: Place) -> None:
        """Bind one of the component's dims."""
        self.dims[name] = actual
        dynamic = [item for item in actual.names if self.known_sizes[item] is None]
        if dynamic and name not in self.signature.dynamic:
            message = (
                f"'{name}' of '{self.signature.component}' is fixed by specialize, "
                f"but '{dynamic[0]}' stays dynamic"
            )
            self.errors.append(at.error("", message))

    def check_sizes(self, at: Place) -> None:
        """Report each size that the component does not support."""
        sizes = {name: size for name, size in self._sizes().items() if size is not None}
        for rule in self.signature.rules:
            for wrong in rule.broken(sizes):
                message = f"'{rule.dim}' of '{self.signature.component}' {wrong}"
                hint = f"{rule.position}: {rule.text}"
                self.errors.append(at.error("", message, hint))

    def _sizes(self) -> dict[str, int | None]:
        """Return the sizes of the component's dims; None for a dynamic one."""
        found = {k: dim.resolve(self.known_sizes) for k, dim in self.dims.items()}
        return {k: x if isinstance(x, int) else None for k, x in found.items()}

    def instance(self) -> Instance:
        """Return the instance that a complete binding makes."""
        sizes, arguments = self._sizes(), self.signature.arguments
        tensors = [item for item in arguments if isinstance(item, TensorFormal)]
        indices = [item for item in arguments if isinstance(item, IndexFormal)]
        scalars = [item for item in arguments if isinstance(item, ScalarFormal)]
        shown = dict.fromkeys(name for item in tensors for name in item.type.names)
        given = (item.dim for item in indices if sizes[item.dim] != item.default)
        named = dict.fromkeys((*shown, *given))
        suffixes = [f"{n}_{sizes[n]}" for n in named if sizes[n] is not None]
        return Instance(
            name="__".join((self.signature.stem, *suffixes)),
            component=self.signature.component,
            oracle=self.signature.oracle,
            dims=tuple((name, sizes[name]) for name in shown),
            indices=tuple((item.name, sizes[item.dim] or 0) for item in indices),
            scalars=tuple((item.name, item.type) for item in scalars),
            arguments=tuple(
                Argument(item.name, item.type.resolve(sizes), item.limit)
                for item in tensors
            ),
            results=tuple(
                Argument(item.name, item.type.resolve(sizes))
                for item in self.signature.results
            ),
            weight=self.signature.weight,
            absent=self.signature.absent,
        )


def _check_names(
    node: NodeSection,
    signature: ComponentSignature,
    tensors: Mapping[str, GivenTensor],
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
        if isinstance(formal, IndexFormal) and formal.default:
            continue
        if formal.name not in (tensors if is_tensor else node.attributes):
            place = "operands or parameters" if is_tensor else "attributes"
            message = f"'{formal.name}' of '{signature.component}' is missing"
            hint = f"give it under {place}; see {formal.position}"
            yield node.at.error("uses", message, hint)


def _number(value: Given, formal: ScalarFormal, scope: Scope, at: Place) -> float | int:
    """Return the number that an attribute gives to a scalar argument."""
    if value == LAYER:
        # The layers are numbered when the entry point is written out.
        value = 0
    if isinstance(value, str):
        size = scope.sizes.get(value)
        if value not in scope.numbers and size is None:
            hint = did_you_mean(value, list(scope.numbers), "hyperparameters")
            scope.error(at, f"no hyperparameter named '{value}'", hint)
            return 0
        value = scope.numbers[value] if size is None else size
    if formal.type.startswith("f"):
        return float(value)
    if isinstance(value, float):
        message = f"expected an integer for {formal.type} '{formal.name}'"
        scope.error(at, f"{message}, found {value}")
        return 0
    return value
