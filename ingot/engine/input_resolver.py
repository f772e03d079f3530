"""Find the content of an action's inputs: files, texts, and outputs of other actions.

The digests turn an action into a resolved one; the paths are what the command gets.
"""

from __future__ import annotations

import os
from pathlib import Path

from ingot.engine import sandbox, toolchain
from ingot.engine.actions import (
    Action,
    Digest,
    InlineText,
    Output,
    ResolvedAction,
    SourceFile,
    digest_of,
    resolve_action,
)
from ingot.engine.digests import hash_file
from ingot.engine.run_action import LARGE_BYTES, StaleInput
from ingot.engine.store import Store
from ingot.engine.task_records import Records
from ingot.errors import IngotError


class InputResolver:
    """Resolves the inputs of one checkout's actions.

    Outputs are those of this build; for actions that it has not reached, the recorded
    ones.
    """

    def __init__(self, store: Store, records: Records) -> None:
        """Start without outputs of this build."""
        self._store = store
        self._records = records
        self._outputs: dict[str, dict[str, Digest]] = {}
        self._tools: dict[str, str] = {}

    def set_outputs(self, task: str, outputs: tuple[tuple[str, Digest], ...]) -> None:
        """Use these as the outputs of the task from now on."""
        self._outputs[task] = dict(outputs)

    def source_files_fit(self, action: Action, limit_bytes: int) -> bool:
        """Return whether every source file that it reads is within the limit.

        Raises: OSError if one does not exist.
        """
        found = (source for _, source in action.inputs)
        return all(
            os.stat(source.path).st_size <= limit_bytes
            for source in found
            if isinstance(source, SourceFile)
        )

    def resolve(self, action: Action) -> ResolvedAction:
        """Return the action with its inputs' digests; call it once those are built.

        Raises: OSError if an input file cannot be read; IngotError if a tool is
        not installed.
        """
        tools = tuple((f"tool:{tool}", self._identity(tool)) for tool in action.tools)
        return resolve_action(
            action,
            tuple((path, self._digest(source)) for path, source in action.inputs),
            (("sandbox", sandbox.kind()), *tools),
        )

    def locate_all(
        self, action: Action, resolved: ResolvedAction
    ) -> dict[Digest, Path]:
        """Return the paths of the inputs' contents.

        Raises: StaleInput if one is gone.
        """
        digests, files = dict(resolved.inputs), {}
        for name, source in action.inputs:
            digest = digests[name]
            if isinstance(source, SourceFile):
                files[digest] = source.path
            elif isinstance(source, Output):
                files[digest] = self.locate_output(action, source, digest)
            else:
                self._store.put_blob(digest, source.text.encode())
                files[digest] = self._store.blob(digest)
        return files

    def locate_output(self, action: Action, source: Output, digest: Digest) -> Path:
        """Return the path of an earlier action's output.

        Raises: StaleInput if it is gone.
        """
        if not self._store.holds(digest):
            raise _gone(action, source, digest)
        return self._store.blob(digest)

    def check_intact(self, action: Action, resolved: ResolvedAction) -> None:
        """Read every output of an earlier action again that the action was given.

        Raises: StaleInput if one is corrupt, which may be why the action failed.
        """
        digests = dict(resolved.inputs)
        for name, source in action.inputs:
            if isinstance(source, Output) and not self._store.is_intact(digests[name]):
                raise _gone(action, source, digests[name])

    def check_unchanged(self, action: Action, resolved: ResolvedAction) -> None:
        """Check that no source file changed while the command read it.

        Raises: IngotError if one did: the result would be of neither version.
        """
        digests = dict(resolved.inputs)
        for name, source in action.inputs:
            if not isinstance(source, SourceFile):
                continue
            if digests[name].size_bytes > LARGE_BYTES:
                # It was mounted. A program that has it mapped can change it in memory
                # without changing its times, on a tmpfs even after a sync.
                found = hash_file(source.path)
            else:
                found = self._digest(source)
            if found != digests[name]:
                self._store.digests.forget(source.path)
                raise IngotError(
                    f"{action.task}: {source.path} changed while the action read it",
                    "run the same command again",
                )

    def _identity(self, tool: str) -> str:
        if tool not in self._tools:
            self._tools[tool] = toolchain.identity(tool, self._store.digests)
        return self._tools[tool]

    def _digest(self, source: SourceFile | InlineText | Output) -> Digest:
        if isinstance(source, SourceFile):
            return self._store.digests.of_file(source.path)
        if isinstance(source, Output):
            return self._output(source)
        return digest_of(source.text.encode())

    def _output(self, source: Output) -> Digest:
        outputs = self._outputs.get(source.task)
        if outputs is None:
            record = self._records.get(source.task)
            if record is None:
                raise FileNotFoundError(2, "not built yet", source.task)
            outputs = dict(record.outputs)
        if source.path not in outputs:
            # The action has new outputs, and has not run since.
            raise FileNotFoundError(2, "not built yet", f"{source.task} {source.path}")
        return outputs[source.path]


def _gone(action: Action, source: Output, digest: Digest) -> StaleInput:
    text = f"{action.task}: {source.path} of {source.task} is gone from the store"
    return StaleInput(text, source, digest)
