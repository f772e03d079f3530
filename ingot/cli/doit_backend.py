"""doit's database, kept in memory and dropped: ingot's own records outlive a run."""

from __future__ import annotations

from typing import Any


class NoDatabase:
    """doit's backend interface over a dictionary."""

    desc = "keeps nothing"

    def __init__(self, name: str, **_: Any) -> None:
        """Take the file's name, and write no such file."""
        self.name = name
        self._tasks: dict[str, dict[str, Any]] = {}

    def dump(self) -> None:
        """Write nothing."""

    def set(self, task: str, dependency: str, value: Any) -> None:
        """Keep a value for the rest of the run."""
        self._tasks.setdefault(task, {})[dependency] = value

    def get(self, task: str, dependency: str) -> Any:
        """Return a value of this run."""
        return self._tasks.get(task, {}).get(dependency)

    def in_(self, task: str) -> bool:
        """Return whether the task has values."""
        return task in self._tasks

    def remove(self, task: str) -> None:
        """Forget a task."""
        self._tasks.pop(task, None)

    def remove_all(self) -> None:
        """Forget all tasks."""
        self._tasks.clear()
