"""Choose the types in which an imported model stores its matrices.

By default each matrix keeps the type of its tensor. The blocks of a GGUF file are kept
as they are, because rounding them to another type would add a second error. Files mix
types, so the policy names those tensors whose type is not the most frequent one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ingot.errors import IngotError, did_you_mean
from ingot.imports.checkpoint_facts import Fact, Survey
from ingot.model.architecture_schema import ArchitectureSection
from ingot.model.manifest import ROUTERS
from ingot.model.shapes import parse_dim
from ingot.weights.element_types import PROJECT
from ingot.weights.quantise import SCHEMES
from ingot.weights.safetensors import StoredTensor

# What values of two or four bytes may be rounded to; experts have fewer kernels.
_ROUNDED = ("i8", "i8_block32", "i4_block32", "i4_block32_hqq")
_ROUNDED_EXPERTS = ("i8",)
_FLOATS = ("f32", "bf16", "f16")
_LAYER = "{layer}"
TILE = 8
"""Rows of a tile, in the layouts of all targets."""


@dataclass(frozen=True, slots=True)
class StoredRule:
    """A line of the policy: the parameters that match are stored so."""

    match: str  # "blk.*.attn_v.weight"
    stored: str


@dataclass(frozen=True, slots=True)
class StoredTypes:
    """The policy of an imported model, and what to report about it."""

    rules: tuple[StoredRule, ...]
    offered: tuple[str, ...]  # for `stored=`
    notes: tuple[str, ...]


def choose_types(
    survey: Survey,
    architecture: ArchitectureSection,
    facts: Mapping[str, Fact],
    tied: tuple[str, ...],
    asked: str | None,
) -> StoredTypes:
    """Return how the model's matrices are stored.

    `tied` are parameters that the model does not have. `asked` is the type that the
    user names; None keeps the checkpoint's own types.

    Raises: IngotError for a type that does not fit the checkpoint.
    """
    experts = "n_expert" in architecture.dims
    matrices = _matrices(architecture, facts, tied)
    own = Counter(_own(tensor) for tensor in survey.tensors if len(tensor.shape) > 1)
    offered = _offered(own, experts)
    if asked is not None and asked not in offered:
        raise _not_offered(asked, offered, own)
    if asked is None and not experts and survey.naming == "gguf":
        rules = _as_in_file(survey)
        notes = [*_unpacked(survey), *_padded(matrices, rules)]
        return StoredTypes(rules, offered, tuple(notes))
    stored = asked or (next(iter(own)) if len(own) == 1 and not experts else "f32")
    left = _left_out(matrices, stored)
    rules = (*left, StoredRule("*", stored))
    notes = [*_padded(matrices, rules)]
    if left:
        names = ", ".join(rule.match for rule in left)
        width = SCHEMES[stored].width
        notes.append(f"{names}: f32, because their rows are no multiple of {width}")
    if experts and stored != "f32":
        notes.append(f"{ROUTERS}: f32, because a router chooses by small differences")
    return StoredTypes(rules, offered, tuple(notes))


def _own(tensor: StoredTensor) -> str:
    """Return the stored type that keeps a tensor's values as they are."""
    kept = {form.ggml: name for name, form in SCHEMES.items() if form.exact}
    return PROJECT.get(tensor.element) or kept.get(tensor.element, "f32")


def _offered(own: Counter[str], experts: bool) -> tuple[str, ...]:
    """Return the types for `stored=`; what was rounded is not rounded again."""
    if any(name in SCHEMES for name in own):
        return ("f32",)
    rounded = _ROUNDED_EXPERTS if experts else _ROUNDED
    return (*_FLOATS, *rounded)


def _not_offered(asked: str, offered: tuple[str, ...], own: Counter[str]) -> IngotError:
    if any(name in SCHEMES for name in own):
        types = ", ".join(sorted(name for name in own if name in SCHEMES))
        return IngotError(
            f"stored={asked}: the checkpoint is quantised already, as {types};"
            " rounding it again would add a second error",
            "leave stored= out to keep its types, or unpack it: stored=f32",
        )
    return IngotError(
        f"stored={asked}: not a type for this checkpoint; expected one of"
        f" {', '.join(offered)}",
        did_you_mean(asked, list(offered), "stored types"),
    )


def _as_in_file(survey: Survey) -> tuple[StoredRule, ...]:
    """Return rules that keep each matrix's type, the fewest that say it."""
    types = {
        tensor.name: _own(tensor) for tensor in survey.tensors if len(tensor.shape) > 1
    }
    kinds: dict[str, list[str]] = {}
    for name in types:
        kinds.setdefault(_pattern(name), []).append(name)
    usual = {
        pattern: Counter(types[name] for name in names).most_common(1)[0][0]
        for pattern, names in kinds.items()
    }
    count = Counter(usual[_pattern(name)] for name in types)
    rest = count.most_common(1)[0][0] if count else "f32"
    single = [
        StoredRule(name, types[name])
        for pattern, names in kinds.items()
        for name in names
        if types[name] != usual[pattern]
    ]
    of_kind = [StoredRule(p, stored) for p, stored in usual.items() if stored != rest]
    return (*single, *of_kind, StoredRule("*", rest))


def _unpacked(survey: Survey) -> tuple[str, ...]:
    """Return a note about tensors in blocks that are not kept."""
    found = sorted(
        {
            tensor.element
            for tensor in survey.tensors
            if tensor.element not in PROJECT and _own(tensor) == "f32"
        }
    )
    if not found:
        return ()
    types = ", ".join(found)
    return (f"{types}: unpacked to f32, because no component computes in these blocks",)


def _pattern(name: str) -> str:
    """Return the pattern that matches a parameter in every layer."""
    return ".".join("*" if word.isdigit() else word for word in name.split("."))


def _matrices(
    architecture: ArchitectureSection, facts: Mapping[str, Fact], tied: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each matrix, by a pattern that matches it in every layer."""
    sizes = {name: int(fact.value) for name, fact in facts.items()}
    return {
        name.replace(_LAYER, "*"): tuple(
            int(parse_dim(dim).resolve(sizes)) for dim in item.dims
        )
        for name, item in architecture.parameters.items()
        if len(item.dims) > 1 and not item.rope_base and name not in tied
    }


def _padded(
    matrices: Mapping[str, tuple[int, ...]], rules: tuple[StoredRule, ...]
) -> Iterator[str]:
    """Yield a note for each matrix whose rows are not whole tiles."""
    for name, shape in matrices.items():
        stored = next(r.stored for r in rules if fnmatchcase(name, r.match))
        missing = -shape[0] % TILE
        kept = stored == "f32" or len(shape) > 2 or fnmatchcase(name, ROUTERS)
        if missing and not kept:
            rows = f"{shape[0]} rows, stored as {shape[0] + missing}"
            yield f"{name}: {rows}: kernels read {TILE} together"


def _left_out(
    matrices: Mapping[str, tuple[int, ...]], stored: str
) -> tuple[StoredRule, ...]:
    """Return rules for matrices whose rows are not whole blocks."""
    width = SCHEMES[stored].width if stored in SCHEMES else 1
    return tuple(
        StoredRule(name, "f32") for name, shape in matrices.items() if shape[-1] % width
    )
