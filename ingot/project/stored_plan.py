"""Turn a model's plan into a value that `codec` writes, and back.

The actions of a plan share most of their inputs, so each input is written once and the
actions refer to it by number.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from ingot import codec
from ingot.engine.actions import Action, InlineText, Limits, Output, Source, SourceFile
from ingot.model.terms import Terms
from ingot.project.catalogue_values import Model

Pairs: TypeAlias = tuple[tuple[str, str], ...]


_OTHERS = tuple(item.name for item in fields(Action) if item.name != "inputs")


@dataclass(frozen=True)
class StoredAction:
    """An action that refers to the inputs of its plan by number."""

    task: str
    argv: tuple[str, ...]
    inputs: tuple[int, ...]
    outputs: tuple[str, ...]
    tools: tuple[str, ...]
    env: Pairs
    platform: Pairs
    exported_to: tuple[str, ...]
    exclusive: bool
    limits: Limits
    declared_at: str


@dataclass(frozen=True)
class StoredModel:
    """A model's plan, with numbered inputs: first files, then texts, then outputs.

    Each input begins with its name in the action's folder.
    """

    summary: str
    weights: str
    terms: Terms | None
    broken: str
    unbuildable: dict[str, str]
    files: Pairs
    texts: Pairs
    outputs: tuple[tuple[str, str, str], ...]  # name, task, path among its outputs
    actions: tuple[StoredAction, ...]


def to_stored(model: Model) -> StoredModel:
    """Return the form of a model's plan that `codec` can write."""
    files: dict[tuple[str, Source], tuple[str, str]] = {}
    texts: dict[tuple[str, Source], tuple[str, str]] = {}
    outputs: dict[tuple[str, Source], tuple[str, str, str]] = {}
    for name, source in (item for action in model.actions for item in action.inputs):
        if isinstance(source, SourceFile):
            files[name, source] = (name, str(source.path))
        elif isinstance(source, InlineText):
            texts[name, source] = (name, source.text)
        else:
            outputs[name, source] = (name, source.task, source.path)
    numbers = {item: number for number, item in enumerate((*files, *texts, *outputs))}
    return StoredModel(
        summary=model.summary,
        weights=model.weights,
        terms=model.terms,
        broken=model.broken,
        unbuildable=model.unbuildable,
        files=tuple(files.values()),
        texts=tuple(texts.values()),
        outputs=tuple(outputs.values()),
        actions=tuple(
            StoredAction(
                inputs=tuple(numbers[item] for item in action.inputs),
                **_others(action),
            )
            for action in model.actions
        ),
    )


def model_from_plain(value: Any) -> Model:
    """Return the model of a stored plan, which is parsed JSON.

    Raises: ValueError if it is not a stored plan.
    """
    stored = codec.from_plain(StoredModel, value)
    n_inputs = len(stored.files) + len(stored.texts) + len(stored.outputs)
    if not all(0 <= n < n_inputs for action in stored.actions for n in action.inputs):
        raise ValueError("no such input")
    inputs: list[tuple[str, Source]] = [
        *((name, SourceFile(Path(path))) for name, path in stored.files),
        *((name, InlineText(text)) for name, text in stored.texts),
        *((name, Output(task, path)) for name, task, path in stored.outputs),
    ]
    return Model(
        summary=stored.summary,
        weights=stored.weights,
        terms=stored.terms,
        broken=stored.broken,
        unbuildable=stored.unbuildable,
        actions=tuple(
            Action(
                inputs=tuple([inputs[number] for number in action.inputs]),
                **_others(action),
            )
            for action in stored.actions
        ),
    )


def _others(action: Action | StoredAction) -> dict[str, Any]:
    """Return all fields but the inputs, which both kinds of action have."""
    return {name: getattr(action, name) for name in _OTHERS}
