"""Actions in, results out: from the record, from the store, or by running the command.

An action is current when it is equal to the one recorded and everything it made is as
it was left. Otherwise the store is asked by key, then the shared cache; only then does
the command run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.engine import exports, results, run_action
from ingot.engine.actions import Action, ActionResult, BoundAction, Digest
from ingot.engine.binding import Inputs
from ingot.engine.process import Failed
from ingot.engine.records import Record, Records
from ingot.engine.store import Store
from ingot.engine.trace import Spans
from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.engine.cache.shared_cache import SharedCache
    from ingot.engine.keys import Encoded
    from ingot.engine.remote.protocol import Farm

# What is so small takes no longer to be read or copied than a thread to be told of it.
AT_ONCE_BYTES = 1 << 20


class Executor:
    """Runs actions of one checkout against a store."""

    def __init__(
        self,
        root: Path,
        store: Store,
        report: Callable[[str, str, float], None],
        shared: SharedCache | None = None,
        farm: Farm | None = None,
    ) -> None:
        """Keep checkout and stores; `report(task, source, ms)` is told of each end."""
        self.root = root
        self.store = store
        self.records = Records(root / "build/.ingot/records.sqlite")
        exports.sweep(root)
        self._report = report
        self._shared = shared
        self._farm = farm
        self.spans = Spans()
        self._inputs = Inputs(store, self.records)

    def is_current(self, action: Action) -> bool:
        """Return whether the recorded result of the action still stands."""
        try:
            return self._stands(action)
        except (OSError, IngotError):
            # A tool or an input is gone: performing it says so.
            return False

    def _stands(self, action: Action) -> bool:
        record = self.records.get(action.task)
        if record is None or self.bound(action) != record.bound:
            return False
        if not exports.are_left(self.root, record):
            return False
        self.store.use(record.key, *(digest for _, digest in record.outputs))
        if not all(self.store.holds(digest) for _, digest in record.outputs):
            return False
        self._inputs.made(action.task, record.outputs)
        return True

    def bound(self, action: Action) -> BoundAction:
        """Return the action with its inputs' digests; those above it have ended.

        Raises: OSError where an input file cannot be read; IngotError where a tool is
        not installed.
        """
        return self._inputs.bound(action)

    def restore(self, action: Action) -> bool:
        """Return whether its result was at hand, and small: it is shown and recorded.

        At hand is what the store has, or a shared cache that answers at once. Nothing
        else is waited for: what another build has in hand, and what goes wrong, is
        for `perform`.
        """
        start = time.monotonic()
        try:
            if not self._inputs.are_small(action, AT_ONCE_BYTES):
                return False
            bound, encoded = self._encoded(action)
            shared = self._shared if self._shared and self._shared.is_near() else None
            if not (shared or self.store.may_have(encoded.key)):
                return False
            with self.store.locked_if_free(encoded.key) as is_ours:
                if not is_ours:
                    return False
                source, result = "restored", self._kept(action, encoded.key)
                if result is None and shared is not None:
                    source = "fetched"
                    result = shared.fetch_small(
                        encoded.key, bound.outputs, AT_ONCE_BYTES
                    )
                if result is None or result.size_bytes() > AT_ONCE_BYTES:
                    return False
                self._forget(action)
                self._record(action, bound, encoded, result, source, start)
        except (OSError, IngotError):
            return False
        self.spans.end(action.task, "action", start)
        return True

    def perform(self, action: Action) -> None:
        """Get the outputs into the store and the shown files into the checkout.

        Raises: ActionFailed where its command fails; IngotError where an input is
        missing.
        """
        start = time.monotonic()
        try:
            self._forget(action)
            bound, encoded = self._encoded(action)
            self.spans.end(action.task, "key", start)
            # Shown and recorded under the lock too: two builds in one checkout would
            # otherwise record each other's files.
            with self.store.locked(encoded.key):
                result, source = self._obtain(action, bound, encoded)
                self._record(action, bound, encoded, result, source, start)
        except OSError as error:
            raise IngotError(
                f"{action.task}: {error.filename}: {error.strerror}",
                "mend it, or what names it, and run the same command again",
            ) from error
        finally:
            self.spans.end(action.task, "action", start)

    def _encoded(self, action: Action) -> tuple[BoundAction, Encoded]:
        from ingot.engine.keys import encode

        bound = self.bound(action)
        return bound, encode(bound)

    def _record(
        self,
        action: Action,
        bound: BoundAction,
        encoded: Encoded,
        result: ActionResult,
        source: str,
        start: float,
    ) -> None:
        """Show the outputs; remember and tell how the action ended."""
        showing = time.monotonic()
        copies = exports.show(self.root, self.store, action, result)
        self.spans.end(action.task, "show", showing)
        wall_ms = (time.monotonic() - start) * 1e3
        record = Record(
            bound,
            encoded.key.hash,
            result.outputs,
            copies,
            result.log,
            source,
            wall_ms,
        )
        self.records.put(action.task, record)
        self._inputs.made(action.task, result.outputs)
        self._report(action.task, source, wall_ms)

    def _forget(self, action: Action) -> None:
        """Know nothing of it until its end: a kill leaves no stale record."""
        before = self.records.get(action.task)
        if before is not None:
            exports.remove_left_over(self.root, before, action)
            self.records.forget(action.task)

    def _obtain(
        self, action: Action, bound: BoundAction, encoded: Encoded
    ) -> tuple[ActionResult, str]:
        """Return the action's result, and how: "restored", "fetched" or "ran"."""
        start = time.monotonic()
        result = self._kept(action, encoded.key)
        self.spans.end(action.task, "look up", start)
        if result is not None:
            return result, "restored"
        if self._shared is not None:
            start = time.monotonic()
            result = self._shared.fetch(encoded.key, bound.outputs)
            self.spans.end(action.task, "fetch", start)
            if result is not None:
                return result, "fetched"
        local = self.is_local(action)
        if local:
            result = self._run(action, bound)
        else:
            result = self._run_elsewhere(action, bound, encoded.key)
        result = replace(result, messages=encoded.messages + results.packed(action))
        if self._shared is not None and local:
            result = self._shared.inlined(result)
        self.store.put_action(encoded.key, result)
        if self._shared is not None and local:
            self._shared.share(encoded.key, result)
        elif self._shared is not None:
            self._shared.hint(result)
        return result, "ran"

    def _kept(self, action: Action, key: Digest) -> ActionResult | None:
        """Return the result that the store has."""
        result = self.store.action(key)
        # A flipped bit may leave a message that can be read.
        names = {name for name, _ in result.outputs} if result else set()
        return result if names == set(action.outputs) else None

    def is_local(self, action: Action) -> bool:
        """Return whether its command runs on this machine."""
        return self._farm is None or not self._farm.takes(action)

    def foresee(self, task: str, outputs: tuple[tuple[str, Digest], ...]) -> None:
        """Take these for the outputs of a task that would be restored."""
        self._inputs.made(task, outputs)

    def log(self, task: str) -> str:
        """Return what the task's command printed when it ran, here or elsewhere."""
        record = self.records.get(task)
        if record is None or record.log is None or not self.store.holds(record.log):
            return ""
        return self.store.blob(record.log).read_text("utf-8", errors="replace")

    def _run(self, action: Action, bound: BoundAction) -> ActionResult:
        """Run the command in a folder of its inputs; return what it made."""
        with self.store.machine(action.exclusive), self.store.scratch() as folder:
            start = time.monotonic()
            large = run_action.lay_out(action, bound, folder, self._inputs.blob)
            start = self.spans.end(action.task, "lay out", start)
            done = run_action.start(action, folder, large)
            ended = self.spans.end(action.task, "run", start)
            missing = [p for p in action.outputs if not os.path.isfile(f"{folder}/{p}")]
            if done.exit_code != 0 or missing:
                raise self._failure(action, folder, large, Failed(done, missing))
            self._inputs.refuse_changed(action, bound)
            result = ActionResult(
                outputs=tuple(
                    (path, self.store.take_file(f"{folder}/{path}"))
                    for path in sorted(action.outputs)
                ),
                log=self.store.put_bytes(done.output),
                task=action.task,
                wall_ms=(ended - start) * 1e3,
            )
            self.spans.end(action.task, "keep", ended)
            return result

    def _run_elsewhere(
        self, action: Action, bound: BoundAction, key: Digest
    ) -> ActionResult:
        """Have the command run by another machine; return what it made."""
        assert self._farm is not None
        result = self._farm.run(action, bound, key, self._inputs.files(action, bound))
        if isinstance(result, ActionResult):
            self._inputs.refuse_changed(action, bound)
            return result
        with self.store.scratch() as folder:
            large = run_action.lay_out(action, bound, folder, self._inputs.blob)
            raise self._failure(action, folder, large, result)

    def _failure(
        self, action: Action, folder: Path, large: dict[str, Path], how: Failed
    ) -> run_action.ActionFailed:
        kept: Path | OSError
        try:
            kept = run_action.keep(action, folder, large, self.root)
        except OSError as error:
            # Not instead of the command's own words.
            kept = error
        return run_action.failure(
            action, how.done, how.missing, folder, self.root, kept
        )
