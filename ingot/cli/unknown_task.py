"""A word that names no task in, what to tell its writer out."""

from __future__ import annotations

from pathlib import Path

from ingot.errors import IngotError, did_you_mean
from ingot.project.catalogue import STAGES, read
from ingot.project.selection import refuse_unreadable


def no_task(name: str, commands: list[str]) -> IngotError:
    """Return why there is no task of this name; it may be a misspelt command."""
    if name in commands:
        hint = f"a command stands before its options: doit {name}"
        return IngotError(f"no task named '{name}'", hint)
    catalogue = read(Path.cwd())
    settings = catalogue.settings
    for kind, names in (("model", settings.models), ("target", settings.targets)):
        if name in names:
            hint = f"it is a {kind}: doit build {kind}={name}"
            return IngotError(f"no task named '{name}'", hint)
    try:
        refuse_unreadable(catalogue, name)
    except IngotError as error:
        return error
    known = [action.task for action in catalogue.plan.actions]
    return unknown_task(name, [*STAGES, "build", *commands, *known])


def unknown_task(name: str, known: list[str]) -> IngotError:
    """Return the error for a task that does not exist."""
    hint = did_you_mean(name, known, "tasks")
    if not hint.startswith("did you mean"):
        # There are thousands.
        hint = "a task is STAGE:MODEL@TARGET, or a pattern: 'check:*@x86_64'; run:"
        hint += " doit list"
    return IngotError(f"no task named '{name}'", hint)
