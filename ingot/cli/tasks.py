"""Turn the plan's actions into doit's task dictionaries.

Every action of the models that the command is about is a task, so that any of them can
be named; the variables choose what the group tasks (`build`, `check`, ...) contain.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from doit import get_initial_workdir
from doit.exceptions import InvalidDodoFile

from ingot.cli.commands import BY_NAME, Call
from ingot.cli.doit_commands import variables as command_line_variables
from ingot.engine.actions import Action, Output, stage_of
from ingot.errors import IngotError, did_you_mean
from ingot.model.renamed import COMMAND_LINE, new_word
from ingot.project.catalogue import (
    STAGES,
    Catalogue,
    Plan,
    Selection,
    read,
    requested_models,
)
from ingot.project.catalogue_values import Model, Settings
from ingot.project.selection import check_readable, select

# Where a task dictionary holds its action: doit does not use this part.
ACTION = "action"


class Checkout:
    """What dodo.py declares: the tasks of the checkout in its folder."""

    def __init__(
        self,
        root: Path,
        read: Callable[[Path, Collection[str]], Catalogue] = read,
        select: Callable[[Catalogue, dict[str, str]], Selection] = select,
    ) -> None:
        """Declare the tasks of the checkout at `root`; nothing is read yet.

        Raises: InvalidDodoFile if doit was started in another folder: there it does not
            find the commands that pyproject.toml declares.
        """
        if not os.path.samefile(get_initial_workdir() or root, root):
            text = f"run doit in the checkout's folder\n  cd {root}"
            raise InvalidDodoFile(text)
        self.root = root
        self._read, self._select = read, select
        self._opened: tuple[Settings, Plan, Selection] | None = None
        self.models: Mapping[str, Model] = {}  # those that were opened

    def open(self, variables: Mapping[str, str], tasks: Sequence[str]) -> None:
        """Read the models that the variables and tasks name; print what is left out.

        Raises: IngotError for everything that is wrong with them.
        """
        catalogue = self._read(self.root, requested_models(dict(variables), tasks))
        selection = self._select(catalogue, dict(variables))
        self._opened = catalogue.settings, catalogue.plan, selection
        self.models = catalogue.models
        for name, reason in selection.skipped:
            print(f"target {name} is left out: {reason}", file=sys.stderr)
        if models := catalogue.plan.compiled_only(selection):
            names = ", ".join(models)
            text = f"compiled only, because their weights are splats: {names}"
            print(text, file=sys.stderr)

    @property
    def settings(self) -> Settings:
        """Return what all models share."""
        return self._content()[0]

    def tasks(self, stage: str) -> Iterator[dict[str, Any]]:
        """Yield the stage's tasks, and the group of those that are selected."""
        _, plan, selection = self._content()
        for action in plan.actions:
            if stage_of(action.task) == stage:
                yield task(action)
        yield {
            "basename": stage,
            "actions": None,
            "task_dep": list(plan.selected(stage, selection)),
            "doc": STAGES[stage],
        }

    def all_tasks(self) -> Iterator[dict[str, Any]]:
        """Yield the tasks of all stages, and the group `build`."""
        for stage in STAGES:
            yield from ({"doc": STAGES[stage], **item} for item in self.tasks(stage))
        yield {"basename": "build", **self.build()}

    def build(self) -> dict[str, Any]:
        """Return the group of everything up to the bundle."""
        _, plan, selection = self._content()
        return {"actions": None, "task_dep": plan.ends(selection)}

    def _content(self) -> tuple[Settings, Plan, Selection]:
        """Return what was opened; doit's own commands, such as `help`, open nothing."""
        if self._opened is None:
            try:
                self.open(command_line_variables(), ())
            except IngotError as error:
                raise InvalidDodoFile(str(error)) from None
        assert self._opened is not None
        return self._opened


def task(action: Action) -> dict[str, Any]:
    """Return doit's task of an action.

    `ingot.cli.build_command` executes the action itself, in a sandbox or from the
    store; the command line is only informative.
    """
    needs = {s.task for _, s in action.inputs if isinstance(s, Output)}
    return {
        "basename": action.task,
        "actions": [list(action.argv)],
        "task_dep": sorted(needs),
        "meta": {ACTION: action},
    }


def load(call: Call, words: Sequence[str]) -> tuple[Checkout, dict[str, Any]]:
    """Load dodo.py; return its checkout, and doit's tasks by name.

    Raises: IngotError if something that the command is about cannot be read.
    """
    loader = call.doit["task_loader"]
    loader.setup(call.options)
    declared = loader.namespace.values()
    checkout = next((item for item in declared if isinstance(item, Checkout)), None)
    if checkout is None:
        raise IngotError("dodo.py declares no checkout", "CHECKOUT = Checkout(...)")
    checkout.open(call.variables, words)
    tasks = loader.load_tasks(cmd=call.doit["command"], pos_args=list(words))
    return checkout, {item.name: item for item in tasks}


def choose(names: Collection[str], words: Sequence[str], root: Path) -> list[str]:
    """Return the tasks that arguments and wildcards name.

    Raises: IngotError for one that names none.
    """
    found: list[str] = []
    for word in words:
        matches = [name for name in names if fnmatch(name, word)] if "*" in word else []
        if not matches and word not in names:
            raise no_task(word, root)
        found += matches or [word]
    return list(dict.fromkeys(found))


def choose_actions(plan: Plan, selection: Selection, call: Call) -> set[str]:
    """Return the actions that a command's arguments name, by default those of a build.

    A stage means its selected actions and all that those need.

    Raises: IngotError for one that names none.
    """
    found: set[str] = set()
    names = (*STAGES, "build", *plan.by_task)
    for name in choose(names, call.words or ("build",), call.root):
        if name == "build":
            found |= plan.needed(plan.ends(selection))
        elif name in STAGES:
            found |= plan.needed(plan.selected(name, selection))
        else:
            found.add(name)
    return found


def no_task(name: str, root: Path) -> IngotError:
    """Return the error for an argument that names no task, perhaps something else."""
    if name in BY_NAME:
        hint = f"a command goes before its options: doit {name}"
        return IngotError(f"no task named '{name}'", hint)
    catalogue = read(root)
    settings = catalogue.settings
    for kind, names in (("model", settings.models), ("target", settings.targets)):
        if name in names:
            hint = f"it is a {kind}: doit build {kind}={name}"
            return IngotError(f"no task named '{name}'", hint)
    try:
        check_readable(catalogue, name)
    except IngotError as error:
        return error
    stage = stage_of(name)
    if new := new_word(COMMAND_LINE, stage):
        hint = f"'{stage}' was renamed: doit {name.replace(stage, new, 1)}"
        return IngotError(f"no task named '{name}'", hint)
    known = [action.task for action in catalogue.plan.actions]
    return unknown_task(name, [*STAGES, "build", *BY_NAME, *known])


def unknown_task(name: str, known: list[str]) -> IngotError:
    """Return the error for a task that does not exist."""
    hint = did_you_mean(name, known, "tasks")
    if not hint.startswith("did you mean"):
        # There are thousands, so a list of the nearest would not help.
        hint = "a task is STAGE:MODEL@TARGET, or a pattern: 'check:*@x86_64'; run:"
        hint += " doit list"
    return IngotError(f"no task named '{name}'", hint)
