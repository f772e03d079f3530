"""Bring the result of each action into the store, as cheaply as possible.

An action is up to date when it equals the one recorded for its task and its exported
files are as the build left them. Otherwise the executor looks up its key in the store,
then in the shared cache; only when both miss does it run the command, on this machine
or on a remote worker.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.engine import build_outputs, run_action
from ingot.engine.action_results import pack_texts
from ingot.engine.actions import (
    Action,
    ActionResult,
    Digest,
    ResolvedAction,
    SourceFile,
)
from ingot.engine.event_log import Trace
from ingot.engine.input_resolver import InputResolver
from ingot.engine.run_action import StaleInput
from ingot.engine.store import CorruptBlob, Store
from ingot.engine.task_records import Records, TaskRecord
from ingot.errors import IngotError

if TYPE_CHECKING:
    from ingot.engine.action_keys import EncodedAction
    from ingot.engine.cache.shared_cache import SharedCache
    from ingot.engine.remote.remote_executor import RemoteExecutor
    from ingot.engine.trust import Trust

# Reading or copying this much takes no longer than handing it to another thread.
AT_ONCE_BYTES = 1 << 20


class Executor:
    """Executes the actions of one checkout against a store."""

    def __init__(
        self,
        root: Path,
        store: Store,
        report: Callable[[str, str, float], None],
        shared: SharedCache | None = None,
        remote: RemoteExecutor | None = None,
        trust: Trust | None = None,
    ) -> None:
        """Open the checkout's records; call `report(task, source, ms)` at each end.

        With `trust`, results of other machines need a trusted signature.
        """
        self.root = root
        self.store = store
        self.records = Records(root / "build/.ingot/records.sqlite")
        build_outputs.sweep(root)
        self._report = report
        self._shared = shared
        self._remote = remote
        self._trust = trust
        # What was accepted under other keys is looked up again.
        self.trust_state = "" if trust is None else trust.state
        self.trace = Trace()
        self._inputs = InputResolver(store, self.records)
        self._actions: dict[str, Action] = {}  # those that this build has asked about

    def is_up_to_date(self, action: Action) -> bool:
        """Return whether the action equals its record, and nothing of it changed."""
        try:
            return self._matches_record(action)
        except (OSError, IngotError):
            # A tool or an input is missing: executing the action reports it.
            return False

    def _matches_record(self, action: Action) -> bool:
        self._actions[action.task] = action
        record = self.records.get(action.task)
        if record is None or record.trust != self.trust_state:
            return False
        if self.resolve(action) != record.resolved:
            return False
        if any(build_outputs.changes(self.root, record)):
            return False
        self.store.lease_result(record.key, *(digest for _, digest in record.outputs))
        if not all(self.store.holds(digest) for _, digest in record.outputs):
            return False
        self._inputs.set_outputs(action.task, record.outputs)
        return True

    def resolve(self, action: Action) -> ResolvedAction:
        """Return the action with its inputs' digests; call it once those are built.

        Raises: OSError if an input file cannot be read; IngotError if a tool is
        not installed.
        """
        return self._inputs.resolve(action)

    def restore(self, action: Action) -> bool:
        """Restore a small result that is a cache hit; return whether there was one.

        It looks in the store, and in a shared cache that responds fast, and never
        waits: it leaves a key that another build has locked, and every failure, to
        `execute`.
        """
        start = time.monotonic()
        try:
            if not self._inputs.source_files_fit(action, AT_ONCE_BYTES):
                return False
            resolved, encoded = self._encode(action)
            shared = self._shared
            if shared is not None and not shared.responds_fast():
                shared = None
            if not (shared or self.store.may_have(encoded.key)):
                return False
            with self.store.lock(encoded.key, wait=False) as is_ours:
                if not is_ours:
                    return False
                source, result = "restored", self.stored(action, encoded.key)
                if result is None and shared is not None:
                    source = "fetched"
                    result = shared.fetch_small(
                        encoded.key, resolved.outputs, AT_ONCE_BYTES, action.task
                    )
                if result is None or result.size_bytes() > AT_ONCE_BYTES:
                    return False
                self._forget(action)
                self._finish(action, resolved, encoded, result, source, start)
        except (OSError, IngotError):
            return False
        self.trace.end(action.task, "action", start)
        return True

    def execute(self, action: Action) -> None:
        """Get the outputs into the store, and export files to the checkout.

        Raises: ActionFailed if its command fails; IngotError if an input is
        missing.
        """
        self._actions[action.task] = action
        repaired: set[object] = set()
        while True:
            try:
                self._execute(action)
            except StaleInput as stale:
                if stale.source in repaired:
                    raise
                repaired.add(stale.source)
                self._repair(stale)
            except CorruptBlob:
                # An output of its own, which the store has deleted.
                if action.task in repaired:
                    raise
                repaired.add(action.task)
            else:
                return

    def _repair(self, stale: StaleInput) -> None:
        """Get an input again: the store lost it, or its digest is out of date.

        Raises: StaleInput if this build does not know the action that produces it.
        """
        source = stale.source
        if isinstance(source, SourceFile):
            self.store.digests.forget(source.path)
            return
        # Delete it if it is still there: otherwise its result would be restored.
        self.store.is_intact(stale.digest)
        if source.task in self._actions:
            self.execute(self._actions[source.task])
        else:
            raise stale

    def _execute(self, action: Action) -> None:
        start = time.monotonic()
        try:
            self._forget(action)
            resolved, encoded = self._encode(action)
            self.trace.end(action.task, "key", start)
            # Export and record under the lock too: two builds in one checkout would
            # otherwise record each other's files.
            with self.store.lock(encoded.key):
                result, source = self._obtain(action, resolved, encoded)
                self._finish(action, resolved, encoded, result, source, start)
        except OSError as error:
            raise IngotError(
                f"{action.task}: {error.filename}: {error.strerror}",
                "fix the file, or what names it, and run the same command again",
            ) from error
        finally:
            self.trace.end(action.task, "action", start)

    def stored(self, action: Action, key: Digest) -> ActionResult | None:
        """Return the action's result in the store, if there is one that is trusted."""
        result = self.store.action(key, action.outputs)
        if result is None or self.trusts(action.task, key.hash, result):
            return result
        return None

    def trusts(self, task: str, key: str, result: ActionResult) -> bool:
        """Return whether the result in the store may be used for the task."""
        return self._trust is None or self._trust.accepts(key, result, task)

    def rebuild(self, action: Action, resolved: ResolvedAction) -> ActionResult:
        """Run the command here, whatever is cached; return what nothing records.

        Raises: ActionFailed if it fails; IngotError if an input is missing.
        """
        return self._run(action, resolved)

    def is_local(self, action: Action) -> bool:
        """Return whether its command runs on this machine."""
        return self._remote is None or not self._remote.accepts(action)

    def assume_outputs(
        self, task: str, outputs: tuple[tuple[str, Digest], ...]
    ) -> None:
        """Resolve later actions as if the task had produced these outputs."""
        self._inputs.set_outputs(task, outputs)

    def log(self, task: str) -> str:
        """Return what the task's command printed when it ran, on any machine."""
        record = self.records.get(task)
        if record is None or record.log is None or not self.store.holds(record.log):
            return ""
        return self.store.blob(record.log).read_text("utf-8", errors="replace")

    def _encode(self, action: Action) -> tuple[ResolvedAction, EncodedAction]:
        from ingot.engine.action_keys import encode_action

        resolved = self.resolve(action)
        return resolved, encode_action(resolved)

    def _finish(
        self,
        action: Action,
        resolved: ResolvedAction,
        encoded: EncodedAction,
        result: ActionResult,
        source: str,
        start: float,
    ) -> None:
        """Export the outputs, record the action, report its end."""
        exporting = time.monotonic()
        exported = build_outputs.export(self.root, self.store, action, result)
        self.trace.end(action.task, "export", exporting)
        wall_ms = (time.monotonic() - start) * 1e3
        record = TaskRecord(
            resolved,
            encoded.key.hash,
            result.outputs,
            exported,
            result.log,
            source,
            wall_ms,
            self.trust_state,
        )
        self.records.put(action.task, record)
        self._inputs.set_outputs(action.task, result.outputs)
        self._report(action.task, source, wall_ms)

    def _forget(self, action: Action) -> None:
        """Delete its record until it ends: a killed build leaves no stale record."""
        before = self.records.get(action.task)
        if before is not None:
            build_outputs.remove_stale(self.root, before, action)
            self.records.forget(action.task)

    def _obtain(
        self, action: Action, resolved: ResolvedAction, encoded: EncodedAction
    ) -> tuple[ActionResult, str]:
        """Return the action's result, and how: "restored", "fetched" or "ran"."""
        start = time.monotonic()
        result = self.stored(action, encoded.key)
        self.trace.end(action.task, "look up", start)
        if result is not None:
            return result, "restored"
        if self._shared is not None:
            start = time.monotonic()
            result = self._shared.fetch(encoded.key, resolved.outputs, action.task)
            self.trace.end(action.task, "fetch", start)
            if result is not None:
                return result, "fetched"
        local = self.is_local(action)
        if local:
            result = self._run(action, resolved)
        else:
            result = self._run_remotely(action, resolved, encoded.key)
        messages = encoded.messages + pack_texts(action)
        result = replace(result, messages=messages, made_here=local)
        if self._shared is not None and local:
            result = self._shared.for_upload(encoded.key, result)
        self.store.put_action(encoded.key, result)
        if self._shared is not None:
            if local:
                self._shared.upload(encoded.key, result)
            else:
                self._shared.upload_hint(result)
        return result, "ran"

    def _run(self, action: Action, resolved: ResolvedAction) -> ActionResult:
        """Run the command in a folder of its inputs; return its result."""
        machine = self.store.machine_lock(
            action.exclusive, partial(_report_waiting, action)
        )
        with machine, self.store.scratch() as folder:
            start = time.monotonic()
            large = self._stage_inputs(action, resolved, folder)
            start = self.trace.end(action.task, "stage inputs", start)
            ended = run_action.run_command(action, folder, large)
            ended_s = self.trace.end(action.task, "run", start)
            if ended.failed:
                self._inputs.check_intact(action, resolved)
                raise run_action.describe_failure(
                    action, ended, folder, large, self.root
                )
            self._inputs.check_unchanged(action, resolved)
            result = ActionResult(
                outputs=tuple(
                    (path, self.store.take_file(f"{folder}/{path}"))
                    for path in sorted(action.outputs)
                ),
                log=self.store.put_bytes(ended.output),
                task=action.task,
                wall_ms=(ended_s - start) * 1e3,
            )
            self.trace.end(action.task, "store outputs", ended_s)
            return result

    def _run_remotely(
        self, action: Action, resolved: ResolvedAction, key: Digest
    ) -> ActionResult:
        """Run the command on a remote worker; return its result."""
        assert self._remote is not None
        files = self._inputs.locate_all(action, resolved)
        result = self._remote.run(action, resolved, key, files)
        if isinstance(result, ActionResult):
            self._inputs.check_unchanged(action, resolved)
            self._check_trusted(action, key, result)
            return result
        self._inputs.check_intact(action, resolved)
        with self.store.scratch() as folder:
            large = self._stage_inputs(action, resolved, folder)
            raise run_action.describe_failure(action, result, folder, large, self.root)

    def _check_trusted(self, action: Action, key: Digest, result: ActionResult) -> None:
        """Raise IngotError if no trusted key signed a worker's result."""
        if self._trust is None:
            return
        reason = self._trust.why_not(key.hash, result, action.task)
        if reason:
            raise IngotError(
                f"{action.task}: the worker's result is not used: {reason}",
                "start the worker with an INGOT_SIGNING_KEY whose public key"
                " pyproject.toml names under tool.ingot.keys, or run without executor=",
            )

    def _stage_inputs(
        self, action: Action, resolved: ResolvedAction, folder: Path
    ) -> dict[str, Path]:
        return run_action.stage_inputs(
            action, resolved, folder, self._inputs.locate_output
        )


def _report_waiting(action: Action) -> None:
    """Print that an exclusive action waits until it has the machine alone."""
    if action.exclusive:
        text = f"{action.task}: waiting until no other build runs an action here"
        print(text, file=sys.stderr, flush=True)
