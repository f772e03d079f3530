"""What the executor asks of other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from ingot.engine.actions import Action, ActionResult, Digest, ResolvedAction
from ingot.engine.process import FailedCommand
from ingot.engine.remote.request import WorkRequest, WorkResponse


class Farm(Protocol):
    """Other machines that run actions."""

    def takes(self, action: Action) -> bool:
        """Return whether the action may run there."""

    def run(
        self,
        action: Action,
        resolved: ResolvedAction,
        key: Digest,
        files: dict[Digest, Path],
    ) -> ActionResult | FailedCommand:
        """Return what the command made there, or how it failed, all of it in the store.

        `files` are the inputs. Raises: IngotError where it cannot run there.
        """


class Workers(Protocol):
    """Whoever has orders carried out; contents pass through a shared cache."""

    def run(
        self, order: WorkRequest, name: str, labels: tuple[str, ...], memory_bytes: int
    ) -> WorkResponse:
        """Return a worker's answer; questions of one name may have one answer.

        Raises: IngotError where no worker can run it.
        """

    def remedy(self, cache: str) -> str:
        """Return what to do where workers do not see what this machine sends."""

    def close(self) -> None:
        """Let go of what is under way there."""
