"""Find which block of the architecture each layer of a checkpoint is.

A configuration lists the kind of attention of each layer, or implies it: every n-th
layer sees all positions, or has no rotary embedding.

Source: transformers, models/{gemma3,smollm3}/configuration_*.py for what is implied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Fact, Stated, Survey
from ingot.imports.families import Family
from ingot.imports.hyperparameters import spelled
from ingot.model.architecture_schema import ArchitectureSection

TYPES = "layer_types"
FULL, SLIDING = "full_attention", "sliding_attention"
INTERVALS = ("sliding_window_pattern", "_sliding_window_pattern")
"""Keys that say which layers see all positions: every so many."""

ROPES, ROPE_INTERVAL = "no_rope_layers", "no_rope_layer_interval"
_ROPE_INTERVAL = 4  # of SmolLM3, where the key is missing


def read_layers(
    survey: Survey,
    family: Family,
    architecture: ArchitectureSection,
    facts: dict[str, Fact],
    errors: list[IngotError],
) -> tuple[str, ...]:
    """Return the blocks of the layers in turn; none if the architecture's are right.

    It adds an error for layers of a kind that the architecture does not compute.
    """
    count = facts.get("n_layer")
    if count is None or survey.naming == "gguf":
        return ()
    # A wrong number must not make a loop longer than the list of tensors.
    n_layer = min(int(count.value), len(survey.tensors) + 1)
    ropes = _ropes(survey, n_layer, errors) if family.nope else [True] * n_layer
    types = _types(survey, family, ropes)
    blocks = dict(family.layers)
    wrong = list(_errors(survey, types, tuple(blocks), count))
    errors += wrong
    if wrong or len(ropes) < n_layer:
        return ()
    made = [
        blocks[kind] if rope else f"{family.nope}{blocks[kind]}"
        for kind, rope in zip(types, ropes, strict=False)
    ][:n_layer]
    declared = _declared(architecture)
    if made == [declared[layer % len(declared)] for layer in range(n_layer)]:
        return ()
    return tuple(made[: _period(made)])


def _ropes(survey: Survey, n_layer: int, errors: list[IngotError]) -> list[bool]:
    """Return of each layer whether it has a rotary embedding."""
    stated = survey.stated.get(ROPES)
    if stated is not None and stated.value is not None:
        if _is_flags(stated.value, n_layer):
            return [bool(item) for item in stated.value]
        expected = f"expected 0 or 1 for each of {n_layer} layers"
        found = f"found {spelled(stated.value)}"
        errors.append(IngotError(f"{stated.origin}: {expected}, {found}"))
        return []
    interval = _interval(survey, (ROPE_INTERVAL,)) or _ROPE_INTERVAL
    return [(layer + 1) % interval != 0 for layer in range(n_layer)]


def _is_flags(value: Any, n_layer: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) >= n_layer
        and all(type(item) in (int, bool) and item in (0, 1) for item in value)
    )


def _types(survey: Survey, family: Family, ropes: list[bool]) -> Any:
    """Return the kinds of attention, as stated or as implied."""
    stated = survey.stated.get(TYPES)
    if stated is not None and stated.value is not None:
        return stated.value
    if family.nope:
        windowed = _value(survey, "use_sliding_window") and _value(
            survey, "sliding_window"
        )
        return [SLIDING if windowed and not rope else FULL for rope in ropes]
    pattern = family.layer_types
    if SLIDING in pattern and (interval := _interval(survey, INTERVALS)):
        pattern = (*(SLIDING,) * (interval - 1), FULL)
    return [pattern[layer % len(pattern)] for layer in range(len(ropes))]


def _value(survey: Survey, key: str) -> Any:
    stated = survey.stated.get(key)
    return stated.value if stated else None


def _interval(survey: Survey, keys: Sequence[str]) -> int | None:
    """Return an integer, 1 or more, that a key states."""
    found = (_value(survey, key) for key in keys)
    return next((item for item in found if type(item) is int and item > 0), None)


def _errors(
    survey: Survey, types: Any, known: tuple[str, ...], count: Fact
) -> Iterator[IngotError]:
    stated = survey.stated.get(TYPES) or Stated(types, TYPES)
    if not isinstance(types, list):
        yield IngotError(f"{stated.origin}: expected a list, found {spelled(types)}")
        return
    for layer, found in enumerate(types):
        if found not in known:
            yield IngotError(
                f"{stated.origin}[{layer}]: not supported; expected"
                f" {' or '.join(map(repr, known))}, found {spelled(found)}",
                "the architecture has no such layers",
            )
            return
    stated_types = TYPES in survey.stated and survey.stated[TYPES].value is not None
    if stated_types and len(types) != count.value:
        yield IngotError(
            f"{stated.origin}: expected a type for each of {count.value} layers"
            f" ({count.origin}), found {len(types)}"
        )


def _declared(architecture: ArchitectureSection) -> list[str]:
    """Return the blocks of the architecture's repeated step."""
    steps = (
        step for entry in architecture.entry_points.values() for step in entry.steps
    )
    return next(list(step.blocks.values()) for step in steps if step.repeat)


def _period(items: list[str]) -> int:
    """Return after how many items the list repeats itself."""
    return next(
        n
        for n in range(1, len(items) + 1)
        if all(item == items[index % n] for index, item in enumerate(items))
    )
