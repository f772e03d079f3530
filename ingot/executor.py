"""Actions in, results out: from the record, from the store, or by running the command.

An action is current when it is equal to the one recorded and everything it made is as
it was left. Otherwise the store is asked by key; only then does the command run.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ingot.edges import process, toolchain
from ingot.edges.digests import identify
from ingot.edges.records import Record, Records
from ingot.edges.store import Store
from ingot.errors import IngotError
from ingot.values import (
    Action,
    ActionResult,
    BoundAction,
    Digest,
    Output,
    SourceFile,
    Text,
    bind,
)

# An input file above this is shown to the command where it is, not copied.
LARGE_BYTES = 4 << 20


class ActionFailed(IngotError):
    """A command failed; its whole output, and the way to run it again."""


class Executor:
    """Runs actions of one checkout against a store."""

    def __init__(
        self, root: Path, store: Store, report: Callable[[str, str, float], None]
    ) -> None:
        """Keep checkout and store; `report(task, source, ms)` is told of each end."""
        self.root = root
        self.store = store
        self.records = Records(root / "build/.ingot/records.sqlite")
        self._report = report
        self._made: dict[str, dict[str, Digest]] = {}

    def is_current(self, action: Action) -> bool:
        """Return whether the recorded result of the action still stands."""
        record = self.records.get(action.task)
        if record is None:
            return False
        try:
            if self.bound(action) != record.bound:
                return False
        except OSError:
            return False
        if not self._shown_as_left(record):
            return False
        if not all(self.store.holds(digest) for _, digest in record.outputs):
            return False
        self._made[action.task] = dict(record.outputs)
        return True

    def bound(self, action: Action) -> BoundAction:
        """Return the action with its inputs' digests; those above it have ended.

        Raises: OSError where an input file cannot be read.
        """
        digests = self.store.digests
        tools = tuple(
            (f"tool:{tool}", toolchain.identity(tool, digests)) for tool in action.tools
        )
        return bind(
            action,
            tuple((path, self._digest(source)) for path, source in action.inputs),
            (("sandbox", process.sandbox()), *tools),
        )

    def perform(self, action: Action) -> None:
        """Get the outputs into the store and the shown files into the checkout.

        Raises: ActionFailed where its command fails; IngotError where an input is
        missing.
        """
        start = time.monotonic()
        # Until the end nothing is known of it: a kill in between leaves no stale
        # record.
        self.records.forget(action.task)
        try:
            bound = self.bound(action)
        except OSError as error:
            raise IngotError(
                f"{action.task}: input {error.filename}: {error.strerror}"
            ) from error
        from ingot.keys import encode

        encoded = encode(bound)
        source = "restored"
        with self.store.locked(encoded.key):
            result = self.store.action(encoded.key)
            if result is None:
                source = "ran"
                for content_digest, content in encoded.blobs:
                    if not self.store.holds(content_digest):
                        self.store.put_bytes(content)
                result = self._run(action, bound)
                self.store.put_action(encoded.key, result)
        shown = self._show(action, result)
        wall_ms = (time.monotonic() - start) * 1e3
        self._made[action.task] = dict(result.outputs)
        self.records.put(
            action.task,
            Record(bound, result.outputs, shown, result.log, source, wall_ms),
        )
        self._report(action.task, source, wall_ms)

    def log(self, task: str) -> str:
        """Return what the task's command printed when it ran, here or elsewhere."""
        record = self.records.get(task)
        if record is None or record.log is None or not self.store.holds(record.log):
            return ""
        return self.store.blob(record.log).read_text("utf-8", errors="replace")

    def _digest(self, source: SourceFile | Text | Output) -> Digest:
        if isinstance(source, SourceFile):
            return self.store.digests.of_file(source.path)
        if isinstance(source, Output):
            return self._output(source)
        content = source.text.encode()
        return Digest(hashlib.sha256(content).hexdigest(), len(content))

    def _output(self, source: Output) -> Digest:
        made = self._made.get(source.task)
        if made is None:
            record = self.records.get(source.task)
            if record is None:
                raise FileNotFoundError(2, "not built yet", source.task)
            made = dict(record.outputs)
        return made[source.path]

    def _shown_as_left(self, record: Record) -> bool:
        """Return whether the files shown in the checkout are untouched."""
        for path, identity in record.shown:
            try:
                if identify(os.stat(self.root / path)) != identity:
                    return False
            except OSError:
                return False
        return True

    def _show(
        self, action: Action, result: ActionResult
    ) -> tuple[tuple[str, tuple[int, int, int, int, int]], ...]:
        """Copy outputs to where people look; return what the copies are."""
        outputs = dict(result.outputs)
        shown = []
        for name, path in zip(action.outputs, action.shown, strict=False):
            target = self.root / path
            if not self._is_copy(target, outputs[name]):
                self.store.copy_to(outputs[name], target)
            shown.append((path, identify(os.stat(target))))
        return tuple(shown)

    def _is_copy(self, path: Path, digest: Digest) -> bool:
        try:
            return self.store.digests.of_file(path) == digest
        except OSError:
            return False

    def _run(self, action: Action, bound: BoundAction) -> ActionResult:
        """Run the command in a folder of its inputs; return what it made."""
        with self.store.machine(action.exclusive), self.store.scratch() as folder:
            large = self._lay_out(action, bound, folder)
            done = process.run(
                (toolchain.executable(action.argv[0]), *action.argv[1:]),
                folder,
                {**environment(), **dict(action.env)},
                mounts=large,
                confined=process.sandbox() == "bubblewrap",
            )
            missing = [p for p in action.outputs if not (folder / p).is_file()]
            if done.exit_code != 0 or missing:
                raise self._failure(action, folder, large, done, missing)
            self._refuse_changed_inputs(action, bound)
            return ActionResult(
                outputs=tuple(
                    (path, self.store.take_file(folder / path))
                    for path in sorted(action.outputs)
                ),
                log=self.store.put_bytes(done.output),
            )

    def _lay_out(
        self, action: Action, bound: BoundAction, folder: Path
    ) -> dict[str, Path]:
        """Fill the folder with inputs; return the large ones, which are not copied."""
        digests = dict(bound.inputs)
        large = {}
        for name, source in action.inputs:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(source, Text):
                path.write_text(source.text, encoding="utf-8")
            elif isinstance(source, Output):
                self._link_output(action, name, source, digests[name], path)
            elif digests[name].size_bytes > LARGE_BYTES:
                large[name] = source.path.resolve()
            else:
                shutil.copyfile(source.path, path)
        for name in action.outputs:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        return large

    def _link_output(
        self, action: Action, name: str, source: Output, digest: Digest, path: Path
    ) -> None:
        if not self.store.holds(digest):
            self.records.forget(source.task)
            raise IngotError(
                f"{action.task}: {name} of {source.task} is gone from the store",
                "run the same command again: it is then made anew",
            )
        os.link(self.store.blob(digest), path)

    def _refuse_changed_inputs(self, action: Action, bound: BoundAction) -> None:
        """Keep no result of inputs that changed while the command read them."""
        digests = dict(bound.inputs)
        for name, source in action.inputs:
            if isinstance(source, SourceFile) and self._digest(source) != digests[name]:
                raise IngotError(
                    f"{action.task}: {source.path} changed while it was read",
                    "run the same command again",
                )

    def _failure(
        self,
        action: Action,
        folder: Path,
        large: dict[str, Path],
        done: process.Completed,
        missing: list[str],
    ) -> ActionFailed:
        """Return the error; the folder is kept: the command can be run again."""
        kept = self.root / "build/.ingot/failed" / action.task.replace(":", "-")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(
            folder,
            kept,
            ignore=lambda *_: {Path(name).name for name in large},
            copy_function=_link_or_copy,
        )
        for name, path in large.items():
            (kept / name).symlink_to(path)
        text = done.output.decode(errors="replace").rstrip()
        what = f"failed with exit code {done.exit_code}"
        if done.exit_code < 0:
            what = f"was killed by signal {-done.exit_code}"
        elif done.exit_code == 0:
            what = f"did not write {', '.join(missing)}"
        return ActionFailed(
            f"{action.task}: {action.argv[0]} {what}\n{text}",
            f"run again: {command_line(action, kept)}",
        )


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


def environment() -> dict[str, str]:
    """Return what every command sees besides its own variables.

    The places of tools are not in the action's key: their identities are.
    """
    site = toolchain.site_packages()
    return {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "INGOT_AARCH64_RUNTIME": str(toolchain.AARCH64_RUNTIME),
        "PATH": f"{site}/iree/compiler/_mlir_libs:{site}/iree/_runtime_libs:"
        f"{Path(toolchain.executable('python')).parent}:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": ".",
        "SOURCE_DATE_EPOCH": "0",
    }


def command_line(action: Action, folder: Path) -> str:
    """Return the shell command that runs the action's command by hand."""
    variables = {**environment(), **dict(action.env)}
    words = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
    argv = [toolchain.executable(action.argv[0]), *action.argv[1:]]
    return f"cd {shlex.quote(str(folder))} && env {' '.join(words)} {shlex.join(argv)}"
