"""Parameters wanted and tensors found in, which tensor becomes which parameter out.

Every difference is an error of its own, and all are returned at once: a name map that
is wrong in one place is usually wrong in several.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ingot.errors import IngotError
from ingot.readers.safetensors import StoredTensor
from ingot.weights.elements import SAFETENSORS


@dataclass(frozen=True, slots=True)
class Wanted:
    """A parameter of the model: what it must be, and the tensor it is made of."""

    name: str  # "blk.0.attn_q.weight"
    shape: tuple[int, ...]
    tensor: str  # "encoder.layer.0.attention.self.query.weight"
    source: str  # element type in the source: "f32"
    stored: str  # element type in the archive

    def __str__(self) -> str:
        """Return the parameter as messages name it, with the type its tensor has."""
        return f"{SAFETENSORS[self.source]}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Matched:
    """What the comparison found: pairs to bake, what is left over, and errors."""

    pairs: tuple[tuple[Wanted, StoredTensor], ...]
    ignored: tuple[str, ...]
    unused: tuple[StoredTensor, ...]
    errors: tuple[IngotError, ...]


def match(
    wanted: tuple[Wanted, ...],
    found: tuple[StoredTensor, ...],
    ignore: tuple[str, ...],
    label: str,
) -> Matched:
    """Return the parameters with their tensors, and every way in which they differ.

    `label` names the source where no file can be named.
    """
    tensors = {tensor.name: tensor for tensor in found}
    readers: dict[str, str] = {}
    pairs: list[tuple[Wanted, StoredTensor]] = []
    errors: list[IngotError] = []
    unread = set(tensors) - {item.tensor for item in wanted}
    for item in wanted:
        tensor = tensors.get(item.tensor)
        if tensor is None:
            errors.append(_missing(item, unread, len(tensors), label))
            continue
        pairs.append((item, tensor))
        errors += _differences(item, tensor)
        if item.tensor in readers:
            errors.append(_tied(item, readers[item.tensor], tensor))
        readers[item.tensor] = item.name
    ignored = {name for name in unread if _matches(name, ignore)}
    errors += _greedy(readers, ignore, label)
    return Matched(
        pairs=tuple(pairs),
        ignored=tuple(sorted(ignored)),
        unused=tuple(tensors[name] for name in sorted(unread - ignored)),
        errors=tuple(errors),
    )


def unused(tensor: StoredTensor, twin: str | None) -> IngotError:
    """Return the error of a tensor that no parameter reads.

    `twin` is a tensor with the same bytes that one does read.
    """
    hint = "add a parameter to the architecture, or the tensor to weights.ignore"
    if twin is not None:
        hint = f"its bytes are those of '{twin}' (tied): add it to weights.ignore"
    return IngotError(
        f"{tensor.file}: tensor '{tensor.name}' ({tensor}) is read by no parameter",
        hint,
    )


def _missing(item: Wanted, unread: set[str], count: int, label: str) -> IngotError:
    close = difflib.get_close_matches(item.tensor, unread, n=1, cutoff=0.6)
    if close:
        hint = f"did you mean '{close[0]}'? No parameter reads it"
    elif item.name == "output.weight":
        hint = "where it is tied, the architecture uses 'token_embd.weight' instead"
    else:
        hint = f"the source has {count} tensors, and none unread has such a name"
    return IngotError(
        f"{label}: tensor '{item.tensor}' is missing; expected {item} for parameter"
        f" '{item.name}', found none",
        hint,
    )


def _differences(item: Wanted, tensor: StoredTensor) -> Iterator[IngotError]:
    place = f"{tensor.file}: tensor '{tensor.name}' for parameter '{item.name}'"
    if tensor.shape != item.shape:
        hint = "the manifest's dims are those of another model"
        if sorted(tensor.shape) == sorted(item.shape):
            hint = "the tensor is transposed: the architecture is of another framework"
        yield IngotError(
            f"{place}: wrong shape; expected {list(item.shape)},"
            f" found {list(tensor.shape)}",
            hint,
        )
    if tensor.element != SAFETENSORS[item.source]:
        known = ", ".join(SAFETENSORS)
        found = tensor.element.lower()
        hint = f"a policy's source can be {known}: convert the file"
        if found in SAFETENSORS:
            hint = f"write 'source: {found}' in the rule of weights.policy"
        yield IngotError(
            f"{place}: wrong type; expected {SAFETENSORS[item.source]},"
            f" found {tensor.element}",
            hint,
        )


def _tied(item: Wanted, other: str, tensor: StoredTensor) -> IngotError:
    return IngotError(
        f"{tensor.file}: tensor '{tensor.name}' is read by two parameters, '{other}'"
        f" and '{item.name}'; expected one",
        f"tied weights are one parameter: let the architecture use '{other}' in both"
        " places",
    )


def _greedy(
    readers: dict[str, str], ignore: tuple[str, ...], label: str
) -> Iterator[IngotError]:
    for pattern in ignore:
        hit = next((name for name in readers if fnmatchcase(name, pattern)), None)
        if hit is not None:
            yield IngotError(
                f"{label}: weights.ignore '{pattern}' also matches tensor '{hit}',"
                f" which parameter '{readers[hit]}' reads",
                "name what is to be ignored more closely",
            )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
