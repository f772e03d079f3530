"""Decide which tensor of a checkpoint becomes which parameter.

Every difference is a separate error, and all are returned at once: a name map that is
wrong in one place is usually wrong in several.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ingot.errors import IngotError, counted
from ingot.weights.element_types import BLOCKS, PROJECT, SAFETENSORS
from ingot.weights.parameter_spec import ParameterSpec, container
from ingot.weights.quantise import SCHEMES
from ingot.weights.safetensors import StoredTensor

OUTPUT = "output.weight"
EMBEDDING = "token_embd.weight"


@dataclass(frozen=True, slots=True)
class Matched:
    """The result: matching pairs, unused tensors, and errors."""

    pairs: tuple[tuple[ParameterSpec, tuple[StoredTensor, ...]], ...]
    ignored: tuple[str, ...]
    unused: tuple[StoredTensor, ...]
    errors: tuple[IngotError, ...]


def match(
    wanted: tuple[ParameterSpec, ...],
    found: tuple[StoredTensor, ...],
    ignore: tuple[str, ...],
    label: str,
) -> Matched:
    """Return the parameters with their tensors, and an error for every difference.

    `label` names the source in errors that belong to no file.
    """
    tensors = {tensor.name: tensor for tensor in found}
    readers: dict[str, ParameterSpec] = {}
    pairs: list[tuple[ParameterSpec, tuple[StoredTensor, ...]]] = []
    errors: list[IngotError] = []
    unread = set(tensors) - {name for item in wanted for name in item.tensors}
    for item in wanted:
        here = tuple(tensors[name] for name in item.tensors if name in tensors)
        if len(here) < len(item.tensors):
            left = {name: tensors[name] for name in unread}
            missing = [name for name in item.tensors if name not in tensors]
            errors.append(_missing(item, missing, left, len(tensors), label))
            continue
        differences = [error for tensor in here for error in _differences(item, tensor)]
        if not differences:
            pairs.append((item, here))
        errors += differences
        for tensor in here:
            other = readers.setdefault(tensor.name, item)
            if other is not item and not _apart(item, other):
                errors.append(_tied(item, other.name, tensor))
    ignored = {name for name in unread if _matches(name, ignore)}
    errors += _greedy(readers, ignore, label)
    return Matched(
        pairs=tuple(pairs),
        ignored=tuple(sorted(ignored)),
        unused=tuple(tensors[name] for name in sorted(unread - ignored)),
        errors=tuple(errors),
    )


def unused(tensor: StoredTensor, twin: str | None) -> IngotError:
    """Return the error for a tensor that no parameter reads.

    `twin` is a tensor with the same bytes that a parameter does read.
    """
    hint = "add a parameter to the architecture, or the tensor to weights.ignore"
    if twin is not None:
        hint = f"its bytes are those of '{twin}' (tied): add it to weights.ignore"
    return IngotError(
        f"{tensor.file}: no parameter reads tensor '{tensor.name}' ({tensor})",
        hint,
    )


def untied(tensor: StoredTensor, embedding: str) -> IngotError:
    """Return the error for a separate head in the checkpoint of a tied model."""
    return IngotError(
        f"{tensor.file}: no parameter reads tensor '{tensor.name}' ({tensor}), and its"
        f" values are not those of '{embedding}': the checkpoint is not tied",
        f"remove '{OUTPUT}' from weights.tied, or use another architecture; if the"
        " model is tied nevertheless, add the tensor to weights.ignore",
    )


def other_table(tensor: StoredTensor, item: ParameterSpec) -> IngotError:
    """Return the error for a table in an archive that differs from the computed one."""
    assert item.table
    return IngotError(
        f"{tensor.file}: tensor '{tensor.name}' ({tensor}) is not the table that the"
        f" manifest describes; expected {item}: {item.table}",
        "the archive was baked from a manifest with other dims or hyperparameters",
    )


def _apart(one: ParameterSpec, other: ParameterSpec) -> bool:
    """Return whether two parameters read different rows of one tensor."""
    return bool(one.form and other.form and one.form.row != other.form.row)


def _missing(
    item: ParameterSpec,
    missing: list[str],
    unread: dict[str, StoredTensor],
    count: int,
    label: str,
) -> IngotError:
    names = [
        name
        for name, tensor in unread.items()
        if item.name != OUTPUT or tensor.shape == item.shape
    ]
    close = difflib.get_close_matches(missing[0], names, n=1, cutoff=0.6)
    if close:
        hint = f"did you mean '{close[0]}'? No parameter reads it"
    elif item.name == OUTPUT:
        hint = (
            f"the checkpoint is tied: '{EMBEDDING}' serves for both; write 'tied:"
            f" [{OUTPUT}]' in weights"
        )
    else:
        tensors = counted(count, "tensor")
        hint = f"the source has {tensors}, and no unused one has a similar name"
    more = f", and {len(missing) - 1} more like it," if len(missing) > 1 else ""
    return IngotError(
        f"{label}: tensor '{missing[0]}'{more} is missing; expected {item} for"
        f" parameter '{item.name}', found none",
        hint,
    )


def _differences(item: ParameterSpec, tensor: StoredTensor) -> Iterator[IngotError]:
    place = f"{tensor.file}: tensor '{tensor.name}' for parameter '{item.name}'"
    expected = item.tensor_shape
    if tensor.shape != expected:
        yield IngotError(
            f"{place}: wrong shape; expected {list(expected)},"
            f" found {list(tensor.shape)}",
            _shape_hint(item, tensor),
        )
    elif item.interleaved_heads and item.shape[0] % (2 * item.interleaved_heads):
        yield IngotError(
            f"{place}: its rows are not those of {item.interleaved_heads} heads;"
            f" expected a multiple of {2 * item.interleaved_heads}, found"
            f" {item.shape[0]}",
            "the architecture's number of heads is that of another parameter",
        )
    if tensor.element not in BLOCKS:
        yield _unsupported(place, tensor)
    elif item.form and tensor.element not in PROJECT:
        yield IngotError(
            f"{place}: the dims of this type cannot be reordered; expected one of"
            f" {', '.join(PROJECT)}, found {tensor.element}",
            "its values are stored in blocks: convert the file to F16",
        )
    elif item.stored in SCHEMES and not _fits(item, tensor):
        yield _not_as_stored(place, item, tensor)
    elif item.source and tensor.element != SAFETENSORS[item.source]:
        found = tensor.element.lower()
        hint = "remove 'source' from the rule of weights.policy: the bake converts it"
        if found in SAFETENSORS:
            hint = f"write 'source: {found}' in the rule of weights.policy"
        yield IngotError(
            f"{place}: wrong type; expected {SAFETENSORS[item.source]},"
            f" found {tensor.element}",
            hint,
        )


def _fits(item: ParameterSpec, tensor: StoredTensor) -> bool:
    """Return whether the tensor may be stored so: GGUF's types are never rounded to."""
    scheme = SCHEMES[item.stored]
    return not scheme.exact or tensor.element == scheme.ggml


def _not_as_stored(place: str, item: ParameterSpec, tensor: StoredTensor) -> IngotError:
    own = tensor.element.lower()
    known = own if own in {*SCHEMES, *SAFETENSORS} else "f32"
    return IngotError(
        f"{place}: wrong type; expected {SCHEMES[item.stored].ggml}, whose blocks"
        f" '{item.stored}' keeps, found {tensor.element}",
        f"write 'stored: {known}' in the rule of weights.policy",
    )


def _shape_hint(item: ParameterSpec, tensor: StoredTensor) -> str:
    expected = item.tensor_shape
    if len(expected) == 3 and tensor.shape == (*item.shape[1:], item.shape[0]):
        return "its last dim is the expert's: write 'expert_axis: -1' in weights"
    if len(expected) == 3 and tensor.shape == item.shape:
        return "its first dim is the expert's: remove 'expert_axis: -1' from weights"
    if sorted(tensor.shape) == sorted(expected):
        return "the tensor is transposed: the architecture is of another framework"
    return "the manifest's dims are those of another model"


def _unsupported(place: str, tensor: StoredTensor) -> IngotError:
    known, hint = tuple(SAFETENSORS.values()), "convert the checkpoint to one of these"
    if container(Path(tensor.file)) == "gguf":
        known = tuple(BLOCKS)
        hint = "convert it: llama-quantize --allow-requantize FILE NEW_FILE Q8_0"
    return IngotError(
        f"{place}: unsupported type; expected one of {', '.join(known)},"
        f" found {tensor.element}",
        hint,
    )


def _tied(item: ParameterSpec, other: str, tensor: StoredTensor) -> IngotError:
    return IngotError(
        f"{tensor.file}: two parameters read tensor '{tensor.name}', '{other}' and"
        f" '{item.name}'; expected one",
        f"tied weights are one parameter: use '{other}' twice in the architecture",
    )


def _greedy(
    readers: dict[str, ParameterSpec], ignore: tuple[str, ...], label: str
) -> Iterator[IngotError]:
    for pattern in ignore:
        hit = next((name for name in readers if fnmatchcase(name, pattern)), None)
        if hit is not None:
            yield IngotError(
                f"{label}: weights.ignore '{pattern}' also matches tensor '{hit}',"
                f" which parameter '{readers[hit].name}' reads",
                "make the pattern narrower",
            )


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
