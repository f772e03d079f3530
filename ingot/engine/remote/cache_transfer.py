"""Actions run by workers that share one cache: inputs go there, outputs come back."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

from ingot.engine.actions import Action, ActionResult, Digest, ResolvedAction
from ingot.engine.cache.backend import CacheFailure
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.process import Completed, FailedCommand
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.remote.protocol import Workers
from ingot.engine.remote.request import (
    WorkRequest,
    WorkResponse,
    labels,
    memory_bytes,
    order,
)
from ingot.engine.store import Store
from ingot.errors import IngotError

# What a cache loses between two questions is sent again, this often.
N_TRIES = 3


class RemoteExecutor:
    """A server's workers, and the cache that they share with this machine."""

    def __init__(self, workers: Workers, shared: SharedCache, store: Store) -> None:
        """Keep the three."""
        self._workers = workers
        self._shared = shared
        self._store = store

    def takes(self, action: Action) -> bool:
        """Return whether the action may run there: downloads are made here."""
        return ("network", "yes") not in action.platform

    def run(
        self,
        action: Action,
        resolved: ResolvedAction,
        key: Digest,
        files: dict[Digest, Path],
    ) -> ActionResult | FailedCommand:
        """Return what the command made there, or how it failed, all of it in the store.

        Raises: IngotError where no worker can run it, or the cache fails.
        """
        try:
            self._shared.send(files)
            first = order(action, resolved, self._store.identity())
            for what in (first, replace(first, again=True)):
                answer = self._ask(action, what, key, files)
                result = answer.result
                needed = (answer.log,) if result is None else result.blobs()
                lost = [d for d in needed if d and not self._shared.ensure_local(d)]
                if not lost:
                    break
            else:
                raise IngotError(
                    f"{action.task}: {lost[0]} is not in shared cache"
                    f" {self._shared.name}, where its worker has put it",
                    "run the same command again",
                )
            if result is not None:
                return result
            assert answer.log is not None
        except CacheFailure as error:
            raise IngotError(
                f"{action.task}: shared cache {self._shared.name}: {error}",
                "workers get inputs from it: mend it, or run here, without executor=",
            ) from error
        except CorruptMessage as error:
            raise IngotError(
                f"{action.task}: its worker's answer cannot be used: {error}",
                "start workers from the same checkout, or run here, without executor=",
            ) from error
        output = self._store.blob(answer.log).read_bytes()
        return FailedCommand(
            Completed(answer.exit_code, output), list(answer.unwritten)
        )

    def _ask(
        self, action: Action, order: WorkRequest, key: Digest, files: dict[Digest, Path]
    ) -> WorkResponse:
        for place in range(N_TRIES):
            # Equal names are one task there: its old answer would be given again.
            again = f"-{uuid.uuid4().hex}" if order.again or place else ""
            answer = self._workers.run(
                order, key.hash + again, labels(action), memory_bytes(order.resolved)
            )
            if answer.refusal:
                raise IngotError(
                    f"{action.task}: worker {answer.worker} refuses it:"
                    f" {answer.refusal}",
                    answer.remedy,
                )
            if not answer.missing:
                return answer
            self._shared.send({d: files[d] for d in answer.missing}, again=True)
        names = ", ".join(str(digest) for digest in answer.missing)
        raise IngotError(
            f"{action.task}: worker {answer.worker} finds no {names} in its shared"
            " cache",
            self._workers.remedy(self._shared.name),
        )
