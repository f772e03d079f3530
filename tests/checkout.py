"""Provide a checkout of a few actions, without manifests and without doit."""

from __future__ import annotations

from pathlib import Path

from ingot.engine.actions import Action
from ingot.engine.executor import Executor
from ingot.engine.store import Store


class Checkout:
    """A folder with a build, and the list of what its actions did."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.warnings: list[str] = []
        self.events: list[tuple[str, str]] = []
        root.mkdir(exist_ok=True)
        self.store = Store(cache, self.warnings.append)
        self.executor = Executor(
            root, self.store, lambda task, source, _: self.events.append((task, source))
        )

    def build(self, *actions: Action) -> list[tuple[str, str]]:
        """Run the actions that are not current, in order; return what was done."""
        self.events.clear()
        for action in actions:
            if not self.executor.is_up_to_date(action):
                self.executor.execute(action)
        return list(self.events)
