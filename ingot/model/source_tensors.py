"""A parameter's declaration in, how a source's tensors hold it out.

Checkpoints join what a parameter has alone, and have dims in another order. Which they
do is told by the names of the dims, so that no size decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ingot.errors import ManifestError
from ingot.model.manifest_schema import WeightsSection
from ingot.model.shapes import parse_dim
from ingot.model.yaml_nodes import Node
from ingot.weights.parameter_spec import SourceForm

EXPERT = "{expert}"
N_EXPERT = "n_expert"

Sizes = Mapping[str, int | None]


def check_form(
    name: str, node: Node, parameters: Mapping[str, Node], errors: list[ManifestError]
) -> None:
    """Add errors where a declaration's `hf`, `hf_shape` and `hf_joined` do not fit."""
    own = [str(item.value) for item in node["shape"].items]
    hf, shape, joined = node.get("hf"), node.get("hf_shape"), node.get("hf_joined")
    if hf and EXPERT in hf.text and own[0] != N_EXPERT:
        message = f"{EXPERT} in 'hf', and the parameter's first dim is not {N_EXPERT}"
        errors.append(hf.error(message))
    for found in (shape, joined):
        if found and (hf is None or EXPERT in hf.text):
            errors.append(found.error(f"goes with an 'hf' without {EXPERT}"))
    if shape:
        factors = [word for item in shape.items for word in item.text.split("*")]
        if sorted(factors) != sorted(own) or len(set(own)) < len(own):
            message = "not the parameter's dims in another order, or joined"
            found_text = f"expected {', '.join(own)}, found {', '.join(factors)}"
            errors.append(shape.error(f"{message}; {found_text}"))
    for item in joined.items if joined else ():
        other = parameters.get(item.text)
        if other is None:
            errors.append(item.error(f"no parameter named '{item.text}'"))
        elif [str(dim.value) for dim in other["shape"].items[1:]] != own[1:]:
            message = f"the rows of '{item.text}' have other dims than those of"
            errors.append(item.error(f"{message} '{name}'"))
    if joined and name not in [item.text for item in joined.items]:
        errors.append(joined.error(f"'{name}' is not among them"))


def source_form(
    name: str, node: Node, architecture: Node, sizes: Sizes, weights: WeightsSection
) -> SourceForm | None:
    """Return the form of a parameter's tensor, where it is not the parameter's."""
    own = [str(item.value) for item in node["shape"].items]
    if weights.experts and len(own) == 3 and own[0] == N_EXPERT:
        return _turned(own, [*own[1:], own[0]], sizes)
    if weights.names != "hf":
        return None
    if shape := node.get("hf_shape"):
        return _turned(own, [item.text for item in shape.items], sizes)
    if joined := node.get("hf_joined"):
        rows = {
            item.text: _size(
                str(architecture["parameters"][item.text]["shape"].items[0].value),
                sizes,
            )
            for item in joined.items
        }
        before = list(rows)[: list(rows).index(name)]
        width = [_size(dim, sizes) for dim in own[1:]]
        row = sum(rows[item] for item in before)
        return SourceForm((sum(rows.values()), *width), row)
    return None


def _turned(own: list[str], stored: list[str], sizes: Sizes) -> SourceForm:
    """Return the form of a tensor of these dims, some joined by `*`."""
    split = [word for dim in stored for word in dim.split("*")]
    axes = tuple(split.index(dim) for dim in own)
    shape = tuple(_size(dim, sizes) for dim in stored)
    return SourceForm(shape, 0, () if axes == tuple(range(len(own))) else axes)


def _size(dim: str, sizes: Sizes) -> int:
    product = parse_dim(dim)
    return prod((product.size, *(sizes[name] or 1 for name in product.names)))
