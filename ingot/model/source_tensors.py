"""Describe how a weight source stores a parameter that an architecture declares.

Checkpoints fuse parameters, and have dims in another order. The architecture states
that by the names of the dims, so that it holds for every size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from ingot.errors import ManifestError
from ingot.model.architecture_schema import ParameterSection
from ingot.model.manifest_schema import WeightsSection
from ingot.model.shapes import parse_dim
from ingot.weights.parameter_spec import SourceForm

EXPERT = "{expert}"
N_EXPERT = "n_expert"
LAST = -1  # of the axes

Sizes = Mapping[str, int | None]


def check_form(
    name: str, parameters: Mapping[str, ParameterSection]
) -> Iterator[ManifestError]:
    """Yield where a declaration's `hf`, `hf_shape` and `hf_fused` do not fit."""
    item = parameters[name]
    own, error = item.dims, item.at.error
    if EXPERT in item.hf and own[0] != N_EXPERT:
        message = f"{EXPERT} in 'hf', and the parameter's first dim is not {N_EXPERT}"
        yield error("hf", message)
    if not item.hf or EXPERT in item.hf:
        for key in ("hf_shape", "hf_fused"):
            if getattr(item, key):
                yield error(key, f"needs an 'hf' without {EXPERT}")
    if item.hf_shape:
        factors = [word for dim in item.hf_shape for word in dim.split("*")]
        if sorted(factors) != sorted(own) or len(set(own)) < len(own):
            message = "not the parameter's dims in another order, or joined"
            found = f"expected {', '.join(own)}, found {', '.join(factors)}"
            yield error("hf_shape", f"{message}; {found}")
    for index, joined in enumerate(item.hf_fused):
        if joined not in parameters:
            message = f"no parameter named '{joined}'"
            yield error(f"hf_fused[{index}]", message)
        elif parameters[joined].dims[1:] != own[1:]:
            message = f"the rows of '{joined}' have other dims than those of '{name}'"
            yield error(f"hf_fused[{index}]", message)
    if item.hf_fused and name not in item.hf_fused:
        yield error("hf_fused", f"'{name}' is not among them")


def source_form(
    name: str,
    parameters: Mapping[str, ParameterSection],
    sizes: Sizes,
    weights: WeightsSection,
) -> SourceForm | None:
    """Return the form of a parameter's tensor, if it differs from the parameter's."""
    item = parameters[name]
    own = item.dims
    if weights.expert_axis == LAST and len(own) == 3 and own[0] == N_EXPERT:
        return _turned(own, (*own[1:], own[0]), sizes)
    if weights.naming != "hf":
        return None
    if item.hf_shape:
        return _turned(own, item.hf_shape, sizes)
    if item.hf_fused:
        rows = {
            joined: _size(parameters[joined].dims[0], sizes) for joined in item.hf_fused
        }
        before = list(rows)[: list(rows).index(name)]
        width = [_size(dim, sizes) for dim in own[1:]]
        row = sum(rows[joined] for joined in before)
        return SourceForm((sum(rows.values()), *width), row)
    return None


def _turned(own: tuple[str, ...], stored: tuple[str, ...], sizes: Sizes) -> SourceForm:
    """Return the form of a tensor of these dims, some joined by `*`."""
    split = [word for dim in stored for word in dim.split("*")]
    axes = tuple(split.index(dim) for dim in own)
    shape = tuple(_size(dim, sizes) for dim in stored)
    return SourceForm(shape, 0, () if axes == tuple(range(len(own))) else axes)


def _size(dim: str, sizes: Sizes) -> int:
    product = parse_dim(dim)
    return prod((product.size, *(sizes[name] or 1 for name in product.names)))
