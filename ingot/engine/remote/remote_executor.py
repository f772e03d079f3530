"""Run actions on workers that share a cache with this machine.

The inputs go into the shared cache, a worker runs the command, and the outputs come
back through the cache. Which workers there are is up to a WorkerPool: those of a Dask
scheduler (`dask_client`) or of a server of Bazel's remote-execution API
(`reapi_client`).
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from ingot.engine.actions import Action, ActionResult, Digest, ResolvedAction
from ingot.engine.cache.backend import CacheFailure
from ingot.engine.cache.shared_cache import SharedCache
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.remote.request import WorkRequest, WorkResponse
from ingot.engine.run_action import CommandEnd
from ingot.engine.store import Store
from ingot.errors import IngotError

# How often inputs are uploaded again that the cache has lost.
N_TRIES = 3


class WorkerPool(Protocol):
    """Workers that run requests; contents pass through a shared cache."""

    def run(self, request: WorkRequest, name: str) -> WorkResponse:
        """Return a worker's response; requests of one name may share one response.

        Raises: IngotError if no worker can run it.
        """

    def remedy(self, cache: str) -> str:
        """Return what to do if workers do not see what this machine uploads."""

    def close(self) -> None:
        """Stop waiting for everything that is still under way."""


class RemoteExecutor:
    """Runs actions on the workers of a pool; safe for several threads."""

    def __init__(self, workers: WorkerPool, shared: SharedCache, store: Store) -> None:
        """Use these workers, the cache that they share with this machine, its store."""
        self._workers = workers
        self._shared = shared
        self._store = store

    def accepts(self, action: Action) -> bool:
        """Return whether the action may run remotely: downloads run on this machine."""
        return ("network", "yes") not in action.platform

    def run(
        self,
        action: Action,
        resolved: ResolvedAction,
        key: Digest,
        files: dict[Digest, Path],
    ) -> ActionResult | CommandEnd:
        """Return the command's result or how it failed; its blobs are in the store.

        `files` are the inputs' contents.

        Raises: IngotError if no worker can run it, or the cache fails.
        """
        try:
            self._shared.send(files)
            first = WorkRequest(
                action.task,
                resolved,
                action.tools,
                action.exclusive,
                action.limits,
                self._store.identity(),
            )
            for request in (first, replace(first, again=True)):
                response = self._run_on_worker(action, request, key, files)
                result = response.result(action.task)
                needed = (response.log,) if result is None else result.blobs()
                lost = [d for d in needed if d and not self._shared.ensure_local(d)]
                if not lost:
                    break
            else:
                raise IngotError(
                    f"{action.task}: shared cache {self._shared.name} does not have"
                    f" {lost[0]}, which the worker uploaded",
                    "run the same command again",
                )
            if result is not None:
                return result
            assert response.log is not None
        except CacheFailure as error:
            raise IngotError(
                f"{action.task}: shared cache {self._shared.name}: {error}",
                "workers get inputs from it: fix it, or run without executor=",
            ) from error
        except CorruptMessage as error:
            raise IngotError(
                f"{action.task}: the worker's response is unusable: {error}",
                "start workers from the same checkout, or run without executor=",
            ) from error
        output = self._store.blob(response.log).read_bytes()
        return CommandEnd(response.exit_code, output, response.missing_outputs)

    def close(self) -> None:
        """Stop waiting for everything that is still under way."""
        self._workers.close()

    def _run_on_worker(
        self,
        action: Action,
        request: WorkRequest,
        key: Digest,
        files: dict[Digest, Path],
    ) -> WorkResponse:
        for n_failed in range(N_TRIES):
            # Requests of one name are one task there, which has only one response.
            suffix = f"-{uuid.uuid4().hex}" if request.again or n_failed else ""
            response = self._workers.run(request, key.hash + suffix)
            if response.rejection:
                raise IngotError(
                    f"{action.task}: worker {response.worker} rejected it:"
                    f" {response.rejection}",
                    response.remedy,
                )
            if not response.missing_inputs:
                return response
            self._shared.send(
                {d: files[d] for d in response.missing_inputs}, again=True
            )
        names = ", ".join(str(digest) for digest in response.missing_inputs)
        raise IngotError(
            f"{action.task}: worker {response.worker} does not find {names} in its"
            " shared cache",
            self._workers.remedy(self._shared.name),
        )
