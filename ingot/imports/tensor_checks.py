"""Find contradictions between the tensors of a checkpoint and its numbers.

The needed tensors are read from the architecture's own file, so that there is only one
list of them. Only headers are read; the bake checks the values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Fact, Survey
from ingot.imports.hyperparameters import spelled
from ingot.model.architecture_schema import ArchitectureSection, ParameterSection
from ingot.model.source_tensors import EXPERT
from ingot.weights.element_types import BLOCKS, SAFETENSORS
from ingot.weights.match import OUTPUT
from ingot.weights.safetensors import StoredTensor

LAYER = "{layer}"

HEADS = {"hf": "lm_head.weight", "gguf": "output.weight"}
"""The name of the tensor with which an untied model computes logits."""

EMBEDDINGS = {"hf": "model.embed_tokens.weight", "gguf": "token_embd.weight"}

IGNORED: dict[str, tuple[str, ...]] = {
    "hf": ("*.rotary_emb.inv_freq",),
    "gguf": ("rope_freqs.weight",),
}
"""Tensors that ingot computes itself, or has read already."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the tensors decide, and the errors in them."""

    tied: tuple[str, ...]  # parameters that the checkpoint does not have
    ignored: tuple[str, ...]  # patterns
    notes: tuple[str, ...]
    errors: tuple[IngotError, ...]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A parameter of an architecture, for all layers."""

    name: str  # "blk.{layer}.attn_q.weight"
    tensor: str  # "model.layers.{layer}.self_attn.q_proj.weight"
    dims: tuple[str, ...]  # "n_head*head_dim", "n_embd"
    tied: bool  # whether another tensor replaces it where it is missing

    def tensors(self, layers: int, experts: int) -> list[str]:
        """Return the names of its tensors."""
        count = layers if LAYER in self.tensor else 1
        each = experts if EXPERT in self.tensor else 1
        return [
            self.tensor.replace(LAYER, str(layer)).replace(EXPERT, str(expert))
            for layer in range(count)
            for expert in range(each)
        ]


def compare(
    survey: Survey, architecture: ArchitectureSection, facts: dict[str, Fact]
) -> Comparison:
    """Return what the tensors decide; an error that all layers share is one error.

    `facts` contains every dim of the architecture.
    """
    wanted = _wanted(architecture, survey.naming)
    found = {tensor.name: tensor for tensor in survey.tensors}
    # A wrong number of layers must not make the loop longer than the list of tensors.
    layers = min(int(facts["n_layer"].value), len(found) + 1)
    experts = int(facts["n_expert"].value) if "n_expert" in facts else 1
    experts = min(experts, len(found) // layers + 1)
    tied = tuple(item.name for item in wanted if item.tied and item.tensor not in found)
    errors: list[IngotError] = []
    read: dict[str, StoredTensor] = {}
    for item in wanted:
        names = item.tensors(layers, experts)
        here = {name: found[name] for name in names if name in found}
        missing = [name for name in names if name not in found]
        if missing and item.name not in tied:
            errors.append(_missing(item, missing, len(names), facts, survey))
        errors += _shapes(item, list(here.values()), facts)
        read |= here
    errors += _elements(list(read.values()), survey)
    left = [tensor for tensor in survey.tensors if tensor.name not in read]
    assert survey.family
    patterns = (*IGNORED[survey.naming], *survey.family.unused)
    errors += _unread([item for item in left if not _matches(item, patterns)], survey)
    ignored = tuple(
        pattern for pattern in patterns if any(_matches(t, (pattern,)) for t in left)
    )
    heads = [item for item in wanted if item.tensor == HEADS[survey.naming]]
    ties, notes = _ties(survey, any(item.tied for item in wanted), found)
    if heads and not heads[0].tied:
        ties, notes = (), ()  # the architecture always has a separate head
    return Comparison(tied, ignored, notes, (*errors, *ties))


def _matches(tensor: StoredTensor, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(tensor.name, pattern) for pattern in patterns)


def _wanted(architecture: ArchitectureSection, naming: str) -> list[_Wanted]:
    """Return the parameters that a checkpoint contains, which excludes tables."""
    declared = architecture.parameters
    return [
        _Wanted(
            name=name,
            tensor=name if naming == "gguf" else item.hf,
            dims=item.dims if naming == "gguf" else _hf_dims(item, declared),
            tied=bool(item.tied_to),
        )
        for name, item in declared.items()
        if not item.rope_base
    ]


def _hf_dims(
    item: ParameterSection, declared: Mapping[str, ParameterSection]
) -> tuple[str, ...]:
    """Return the dims of the tensor, or of each expert's tensor."""
    if item.hf_shape:
        return item.hf_shape
    if item.hf_fused:
        rows = [declared[name].dims[0] for name in item.hf_fused]
        return ("+".join(rows), *item.dims[1:])
    return item.dims[1:] if EXPERT in item.hf else item.dims


def _missing(
    item: _Wanted,
    missing: list[str],
    count: int,
    facts: dict[str, Fact],
    survey: Survey,
) -> IngotError:
    more = f", and {len(missing) - 1} more like it" if len(missing) > 1 else ""
    hint = "the checkpoint has another architecture, or is incomplete"
    if len(missing) < count:
        layers = facts["n_layer"]
        hint = f"{layers.origin} says {layers.value} layers"
    return IngotError(
        f"{survey.path.name}: tensor '{missing[0]}'{more}: missing; expected"
        f" [{', '.join(item.dims)}] for parameter '{item.name}', found none",
        hint,
    )


def _shapes(
    item: _Wanted, tensors: list[StoredTensor], facts: dict[str, Fact]
) -> Iterator[IngotError]:
    """Yield an error for the first tensor whose shape contradicts the numbers."""
    expected = tuple(_size(dim, facts) for dim in item.dims)
    wrong = [tensor for tensor in tensors if tensor.shape != expected]
    if not wrong:
        return
    more = f", and {len(wrong) - 1} more like it" if len(wrong) > 1 else ""
    used = dict.fromkeys(
        name
        for dim in item.dims
        for name in dim.replace("+", "*").split("*")
        if name in facts
    )
    origins = (f"{name} = {facts[name].value}: {facts[name].origin}" for name in used)
    yield IngotError(
        f"{wrong[0].file}: tensor '{wrong[0].name}'{more}: wrong shape; expected"
        f" {list(expected)} ({', '.join(item.dims)}), found {list(wrong[0].shape)}",
        "; ".join(origins),
    )


def _size(dim: str, facts: dict[str, Fact]) -> int:
    return sum(
        prod(
            int(facts[word].value) if word in facts else int(word)
            for word in part.split("*")
        )
        for part in dim.split("+")
    )


def _elements(tensors: list[StoredTensor], survey: Survey) -> Iterator[IngotError]:
    known = BLOCKS if survey.naming == "gguf" else SAFETENSORS.values()
    by_type: dict[str, list[StoredTensor]] = {}
    for tensor in tensors:
        if tensor.element not in known:
            by_type.setdefault(tensor.element, []).append(tensor)
    for element, those in sorted(by_type.items()):
        first = min(those, key=lambda tensor: (tensor.file, tensor.offset))
        more = f", and {len(those) - 1} more" if len(those) > 1 else ""
        yield IngotError(
            f"{first.file}: tensor '{first.name}'{more}: not supported; expected"
            f" {', '.join(known)}, found {element}"
        )


def _unread(left: list[StoredTensor], survey: Survey) -> Iterator[IngotError]:
    """Yield errors for tensors that no parameter reads, one for all layers."""
    assert survey.family
    shapes = {tensor.name: tensor.shape for tensor in survey.tensors}
    embedding, head = EMBEDDINGS[survey.naming], HEADS[survey.naming]
    alike: dict[str, list[StoredTensor]] = {}
    for tensor in left:
        if tensor.name == head and tensor.shape == shapes.get(embedding):
            continue  # a copy of the embedding; the bake compares the values
        words = (LAYER if word.isdigit() else word for word in tensor.name.split("."))
        alike.setdefault(".".join(words), []).append(tensor)
    for those in alike.values():
        more = f", and {len(those) - 1} more like it" if len(those) > 1 else ""
        yield IngotError(
            f"{those[0].file}: tensor '{those[0].name}' ({those[0]}){more}: not"
            f" supported; architecture '{survey.family.architecture}' has no parameter"
            " for it"
        )


def _ties(
    survey: Survey, can_be_tied: bool, found: dict[str, StoredTensor]
) -> tuple[tuple[IngotError, ...], tuple[str, ...]]:
    """Return errors and notes where config.json contradicts the tensors."""
    stated = survey.stated.get("tie_word_embeddings")
    head = HEADS[survey.naming]
    if survey.naming == "gguf" or stated is None or stated.value is None:
        return (), ()
    if not isinstance(stated.value, bool):
        found_text = f"expected true or false, found {spelled(stated.value)}"
        return (IngotError(f"{stated.origin}: {found_text}"),), ()
    has = head in found
    if not can_be_tied:
        # The architecture has no separate head, so the tensor can only be a copy.
        if has and stated.value is False:
            return (_own_head(stated.origin, head),), ()
        return (), ()
    if stated.value is not has:
        return (), ()
    if has:
        note = (
            f"the checkpoint has '{head}': imported as not tied; if its values are the"
            f" embedding's, 'tied: [{OUTPUT}]' in weights makes the archive smaller"
        )
    else:
        note = f"there is no '{head}': imported as tied"
    note = f"{stated.origin} is {spelled(stated.value)}, but {note}"
    return (), (note,)


def _own_head(place: str, head: str) -> IngotError:
    return IngotError(
        f"{place}: not supported; expected true, found false",
        f"it computes logits with the embedding, but the checkpoint has '{head}'",
    )
