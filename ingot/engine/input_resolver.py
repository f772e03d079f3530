"""An action's inputs in, their content out: what it is resolved to, where that lies."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ingot.engine import process, toolchain
from ingot.engine.actions import (
    Action,
    Digest,
    InlineText,
    Output,
    ResolvedAction,
    SourceFile,
    resolve_action,
)
from ingot.engine.records import Records
from ingot.engine.store import Store
from ingot.errors import IngotError


class InputResolver:
    """What actions of one checkout read: files of it, texts, outputs of other actions.

    Outputs are those of this build; of actions that it has not come to, those recorded.
    """

    def __init__(self, store: Store, records: Records) -> None:
        """Know of nothing made yet."""
        self._store = store
        self._records = records
        self._made: dict[str, dict[str, Digest]] = {}
        self._tools: dict[str, str] = {}

    def set_outputs(self, task: str, outputs: tuple[tuple[str, Digest], ...]) -> None:
        """Take these for the outputs of the task from now on."""
        self._made[task] = dict(outputs)

    def source_files_fit(self, action: Action, limit_bytes: int) -> bool:
        """Return whether no file of the checkout that it reads is larger than that.

        Raises: OSError where one is not there.
        """
        found = (source for _, source in action.inputs)
        return all(
            os.stat(source.path).st_size <= limit_bytes
            for source in found
            if isinstance(source, SourceFile)
        )

    def resolve(self, action: Action) -> ResolvedAction:
        """Return the action with its inputs' digests; those above it have ended.

        Raises: OSError where an input file cannot be read; IngotError where a tool is
        not installed.
        """
        tools = tuple((f"tool:{tool}", self._identity(tool)) for tool in action.tools)
        return resolve_action(
            action,
            tuple((path, self._digest(source)) for path, source in action.inputs),
            (("sandbox", process.sandbox()), *tools),
        )

    def locate_all(
        self, action: Action, resolved: ResolvedAction
    ) -> dict[Digest, Path]:
        """Return where the contents of the inputs are.

        Raises: IngotError where one is gone.
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
        """Return where the output of an earlier action is.

        Raises: IngotError where it is gone.
        """
        if not self._store.holds(digest):
            self._records.forget(source.task)
            raise IngotError(
                f"{action.task}: {source.path} of {source.task} is gone from the store",
                "run the same command again: it is then made anew",
            )
        return self._store.blob(digest)

    def check_unchanged(self, action: Action, resolved: ResolvedAction) -> None:
        """Keep no result of inputs that changed while the command read them.

        Raises: IngotError where one did.
        """
        digests = dict(resolved.inputs)
        for name, source in action.inputs:
            if isinstance(source, SourceFile) and self._digest(source) != digests[name]:
                raise IngotError(
                    f"{action.task}: {source.path} changed while it was read",
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
        content = source.text.encode()
        return Digest(hashlib.sha256(content).hexdigest(), len(content))

    def _output(self, source: Output) -> Digest:
        made = self._made.get(source.task)
        if made is None:
            record = self._records.get(source.task)
            if record is None:
                raise FileNotFoundError(2, "not built yet", source.task)
            made = dict(record.outputs)
        if source.path not in made:
            # Its outputs have new names, and it has not run since.
            raise FileNotFoundError(2, "not built yet", f"{source.task} {source.path}")
        return made[source.path]
