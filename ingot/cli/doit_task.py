"""What doit calls for each task: is it current, and perform it.

doit's own ways look at a function's arguments by `inspect` at every call, put writers
in place of the process's streams, which threads share, and check fields that no action
has: most of what a task with nothing to do costs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from doit.action import BaseAction
from doit.exceptions import TaskError, TaskFailed
from doit.task import Task

from ingot.engine.actions import Action


class Current:
    """Whether an action has nothing to do."""

    # Seen by `inspect` before it looks any further.
    __signature__ = inspect.Signature()

    def __init__(self, is_current: Callable[[Action], bool], action: Action) -> None:
        """Keep whom to ask, and for what."""
        self._is_current = is_current
        self._action = action

    def __call__(self) -> bool:
        """Return the answer."""
        return self._is_current(self._action)


class Step(BaseAction):  # type: ignore[misc]
    """The performing of an action."""

    out = err = result = None
    values: ClassVar[dict[str, Any]] = {}

    def __init__(
        self,
        perform: Callable[[Action], TaskFailed | None],
        restore: Callable[[Action], bool],
        action: Action,
    ) -> None:
        """Keep who performs or restores, and what."""
        self._perform = perform
        self._restore = restore
        self._action = action

    def __repr__(self) -> str:
        """Return the task's name: what doit says of an action that fails."""
        return self._action.task

    def restore(self) -> bool:
        """Return whether it needed no performing: its result was at hand."""
        return self._restore(self._action)

    def execute(self, out: Any = None, err: Any = None) -> TaskFailed | None:
        """Perform it; a defect is doit's kind of error, with its traceback."""
        try:
            return self._perform(self._action)
        except Exception as error:
            return TaskError(f"{self._action.task}: a defect of ingot", error)


class ActionTask(Task):  # type: ignore[misc]
    """doit's task of one action."""

    # What all of them have, of one that doit has checked; nothing changes it.
    _common: ClassVar[dict[str, Any]] = {**vars(Task("any", None)), "options": {}}

    def __init__(
        self, step: Step, current: Current, needed: list[str], alone: bool
    ) -> None:
        """Keep what to ask, what to do, the tasks that come first.

        `alone` is whether it is to run when nothing else of this build does.
        """
        self.__dict__.update(self._common)
        self.name = repr(step)
        self.uptodate: list[Any] = [(current, [], {})]
        self.task_dep = needed
        self.alone = alone
        self._action_instances = [step]

    def init_options(self, args: list[str] | None = None) -> list[str] | None:
        """Return the words of the command line that are not the task's: all."""
        if args and args[0].startswith("-"):
            # doit's complaint of an option that there is not.
            self.options = None
            super().init_options(args)
        return args
