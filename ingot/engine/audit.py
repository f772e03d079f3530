"""Run actions again whose results a cache has, and compare the digests of the outputs.

Results are reproducible, so a result that differs from a new one was stored by somebody
else (poison), or its action depends on something that its key does not name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from ingot.engine.action_keys import encode_action
from ingot.engine.actions import Action, ActionResult, Digest, Output, ResolvedAction
from ingot.engine.digests import chunks
from ingot.engine.executor import Executor
from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.engine.cache.shared_cache import SharedCache

STORE = "the store"


@dataclass(frozen=True, slots=True)
class CachedAction:
    """An action, and the results that the caches have under its key."""

    action: Action
    resolved: ResolvedAction
    key: Digest
    results: tuple[tuple[str, ActionResult], ...]  # the cache's name, its result


@dataclass(frozen=True, slots=True)
class Difference:
    """An output that came out otherwise than a cache has it."""

    cache: str
    path: str
    cached: Digest
    rebuilt: Digest
    # The first byte that differs; -1 if the cache does not have the blob.
    at_byte: int

    def __str__(self) -> str:
        """Return which output differs, how, and where from."""
        where = "whose blob is missing there"
        if self.at_byte >= 0:
            sizes = f"{self.cached.size_bytes:,} and {self.rebuilt.size_bytes:,}"
            where = f"which differ first at byte {self.at_byte:,} (of {sizes})"
        return (
            f"{self.path}: {self.cached} in {self.cache}, {self.rebuilt} when it was"
            f" run again, {where}"
        )


@dataclass(frozen=True, slots=True)
class Audited:
    """How the outputs of an action that was run again compare with the caches'."""

    task: str
    key: Digest
    caches: tuple[str, ...]
    differences: tuple[Difference, ...] = ()
    failure: str = ""  # why it could not be run again; "" if it was

    @property
    def is_same(self) -> bool:
        """Return whether every cache has what the action produces."""
        return not (self.differences or self.failure)


class Auditor:
    """Runs actions of a checkout again; safe for several threads after `find`."""

    def __init__(self, executor: Executor, shared: SharedCache | None) -> None:
        """Compare with the executor's store, and with the shared cache if there is one.

        The executor trusts every result: what is wrong is to be found.
        """
        self._executor = executor
        self._shared = shared

    def find(self, actions: Iterable[Action]) -> Iterator[CachedAction]:
        """Yield those actions whose results a cache has; `actions` are in order.

        An action whose inputs no cache has is left out, because its key is unknown.
        """
        for action in actions:
            try:
                resolved = self._executor.resolve(action)
            except (OSError, IngotError):
                continue
            key = encode_action(resolved).key
            results = tuple(self._results(action, resolved, key))
            if results:
                # Of the shared cache, if it has one: others build on that.
                self._executor.assume_outputs(action.task, results[-1][1].outputs)
                yield CachedAction(action, resolved, key, results)

    def rebuild(self, cached: CachedAction) -> Audited:
        """Run the action again; return how its outputs compare."""
        task, key = cached.action.task, cached.key
        caches = tuple(name for name, _ in cached.results)
        try:
            self._fetch_inputs(cached)
            result = self._executor.rebuild(cached.action, cached.resolved)
        except IngotError as error:
            return Audited(task, key, caches, failure=str(error))
        rebuilt = dict(result.outputs)
        differences = [
            Difference(name, path, old, rebuilt[path], self._first(old, rebuilt[path]))
            for name, there in cached.results
            for path, old in there.outputs
            if old != rebuilt[path]
        ]
        return Audited(task, key, caches, tuple(differences))

    def _results(
        self, action: Action, resolved: ResolvedAction, key: Digest
    ) -> Iterator[tuple[str, ActionResult]]:
        stored = self._executor.store.action(key, action.outputs)
        if stored is not None:
            yield STORE, stored
        if self._shared is not None:
            shared = self._shared.look_up(key, resolved.outputs, action.task)
            if shared is not None:
                yield f"shared cache {self._shared.name}", shared

    def _fetch_inputs(self, cached: CachedAction) -> None:
        """Get outputs of other actions that only the shared cache has.

        Raises: IngotError if it does not have one.
        """
        digests = dict(cached.resolved.inputs)
        for name, source in cached.action.inputs:
            if isinstance(source, Output) and not self._has(digests[name]):
                raise IngotError(f"{source.task} {source.path}: its blob is missing")

    def _has(self, digest: Digest) -> bool:
        """Return whether the store has the blob, fetched if necessary."""
        self._executor.store.lease(digest)
        if self._executor.store.holds(digest):
            return True
        return self._shared is not None and self._shared.has_blob(digest)

    def _first(self, old: Digest, new: Digest) -> int:
        """Return the first byte that differs; -1 if a cache lacks the old blob."""
        if not self._has(old):
            return -1
        store, at = self._executor.store, 0
        pairs = zip_longest(chunks(store.blob(old)), chunks(store.blob(new)))
        for one, other in pairs:
            if one == other:
                at += len(one)
                continue
            one, other = one or b"", other or b""
            same = zip(one, other, strict=False)
            first = next((i for i, (a, b) in enumerate(same) if a != b), None)
            return at + (min(len(one), len(other)) if first is None else first)
        return at
