"""Run an action's command in a folder of its inputs, and describe it if it fails."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from ingot.engine import network as downloads
from ingot.engine import process, sandbox, toolchain
from ingot.engine.actions import (
    Action,
    Digest,
    InlineText,
    Output,
    ResolvedAction,
    SourceFile,
)
from ingot.engine.digests import copy_file
from ingot.errors import IngotError

# A larger input file is mounted into the folder, not copied: a mount takes 0.1 ms, as
# long as this copy.
LARGE_BYTES = 1 << 18

# A mounted input up to this size is copied to a failed command's folder, where people
# look at it.
KEPT_BYTES = 4 << 20

# Placeholder for the failed command's folder until its script is written.
HERE = "@here@"


class ActionFailed(IngotError):
    """A command failed; has its whole output, and how to run it again."""


class CommandEnd(NamedTuple):
    """How an action's command ended, and which outputs it did not write."""

    exit_code: int
    output: bytes  # what it printed
    missing: tuple[str, ...]

    @property
    def failed(self) -> bool:
        """Return whether there is no result."""
        return self.exit_code != 0 or bool(self.missing)


class StaleInput(IngotError):
    """An input does not have, or no longer has, the digest in the action's key."""

    def __init__(
        self, message: str, source: SourceFile | Output, digest: Digest
    ) -> None:
        """Have the input's source and digest, so that the build can get it again."""
        super().__init__(message, "run the same command again")
        self.source = source
        self.digest = digest


def stage_inputs(
    action: Action,
    resolved: ResolvedAction,
    folder: Path,
    blob: Callable[[Action, Output, Digest], Path],
) -> dict[str, Path]:
    """Put the inputs into the folder; return the large ones, which are mounted instead.

    `blob` returns the path of an earlier action's output, which is only read. Without a
    sandbox nothing can be mounted, and a large input is a link.

    Raises: StaleInput if the content of a copied input does not have its digest.
    """
    sandboxed = sandbox.kind() == "bubblewrap"
    digests = dict(resolved.inputs)
    large = {}
    for name, source in action.inputs:
        path = f"{folder}/{name}"
        _make_parent(name, path)
        if isinstance(source, InlineText):
            with open(path, "xb") as file:
                file.write(source.text.encode())
            continue
        if isinstance(source, Output):
            found = blob(action, source, digests[name])
        else:
            found = source.path.resolve()
        if digests[name].size_bytes <= LARGE_BYTES:
            # A link to a blob would let root change what other actions read.
            if copy_file(found, path) != digests[name]:
                text = "is not what it was when the build looked at it"
                text = f"{action.task}: {name} {text}"
                raise StaleInput(text, source, digests[name])
        elif sandboxed:
            large[name] = found
            open(path, "xb").close()
        else:
            os.symlink(found, path)
    for name in action.outputs:
        _make_parent(name, f"{folder}/{name}")
    return large


def run_command(action: Action, folder: Path, large: dict[str, Path]) -> CommandEnd:
    """Run the command in the folder that `stage_inputs` filled; return how it ended.

    Raises: IngotError if a tool is not installed; KeyboardInterrupt when the build
    is being stopped.
    """
    network = ("network", "yes") in action.platform
    argv = (toolchain.executable(action.argv[0]), *action.argv[1:])
    env = {
        **environment(),
        **(downloads.variables() if network else {}),
        **dict(action.env),
    }
    if sandbox.kind() == "bubblewrap":
        mounts = large | _read_only(action, folder, large)
        words = sandbox.bubblewrap(folder, env, mounts, action.tools, network)
        # bubblewrap is process 1 in there, and /proc/1/environ is readable in there.
        done = process.run((*words, *argv), folder, {}, action.limits)
        if done.exceeded:
            output = done.output + f"\n{done.exceeded}\n".encode()
            done = done._replace(output=output)
    else:
        done = process.run(argv, folder, env)
    missing = tuple(p for p in action.outputs if not _is_plain_file(folder, p))
    return CommandEnd(done.exit_code, done.output, missing)


def _is_plain_file(folder: Path, name: str) -> bool:
    """Return whether the file is there, and is no link, nor behind one.

    A link that a command leaves may name a file that its sandbox hid.
    """
    path = os.path.realpath(f"{folder}/{name}")
    return path == f"{os.path.realpath(folder)}/{name}" and os.path.isfile(path)


def _read_only(action: Action, folder: Path, large: dict[str, Path]) -> dict[str, Path]:
    """Return read-only mounts of the other inputs, which are in the folder itself.

    A folder of inputs is one mount, unless something else has to appear in it.
    """
    others = {name.partition("/")[0] for name in (*action.outputs, *large)}
    names: dict[str, None] = {}
    for name, _ in action.inputs:
        top = name.partition("/")[0]
        if name not in large:
            names[name if top in others else top] = None
    return {name: folder / name for name in names}


@cache
def environment() -> dict[str, str]:
    """Return the variables that every command gets besides its own.

    The paths of tools are not in the action's key: their identities are.
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


def _save_failed(
    action: Action, folder: Path, large: dict[str, Path], root: Path
) -> Path:
    """Save a failed command's folder; return the script in it that runs it again.

    The script uses the same sandbox: what that hides may be the cause of the failure.
    """
    kept = root / "build/.ingot/failed" / action.task.replace(":", "-")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(folder, kept, symlinks=True, copy_function=_link_or_copy)
    mounts = {name: p for name, p in large.items() if p.stat().st_size > KEPT_BYTES}
    for name in large.keys() - mounts.keys():
        (kept / name).unlink()
        shutil.copyfile(large[name], kept / name)
    variables = {**environment(), **dict(action.env)}
    argv = [toolchain.executable(action.argv[0]), *action.argv[1:]]
    lines = ['cd -- "$(dirname -- "$0")"']
    if sandbox.kind() == "bubblewrap":
        network = ("network", "yes") in action.platform
        here = Path(HERE)
        mounts |= _read_only(action, here, mounts)
        words = sandbox.bubblewrap(here, variables, mounts, action.tools, network)
        lines.append(shlex.join([*words, *argv]).replace(HERE, '"$PWD"'))
    else:
        lines += [f"export {name}={shlex.quote(v)}" for name, v in variables.items()]
        lines.append(shlex.join(argv))
    script = kept / "run-again.sh"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return script


def describe_failure(
    action: Action,
    ended: CommandEnd,
    folder: Path,
    large: dict[str, Path],
    root: Path,
) -> ActionFailed:
    """Save the folder in which the command ran; return the error.

    It says what failed, everything it printed, and how to run it again. It names files
    of the checkout `root` and of this machine that the command looked for and that the
    action does not declare.
    """
    if not folder.is_dir():
        return ActionFailed(
            f"{action.task}: its folder was removed while it ran: {folder}",
            "if the store, or a part of it, was deleted, run doit again",
        )
    # Imported late: its patterns would slow every build's start.
    from ingot.engine import missing_inputs

    what = f"failed with exit code {ended.exit_code}"
    if ended.exit_code < 0:
        what = f"was killed by signal {-ended.exit_code}"
    elif ended.exit_code == 0:
        what = f"did not write {', '.join(ended.missing)}"
    text = ended.output.decode(errors="replace").rstrip()
    hints = missing_inputs.explain(action, text, folder, root)
    declared = (f"{action.declared_at} asks for it",) if action.declared_at else ()
    head = f"{action.task}: {action.argv[0]} {what}"
    text = "\n".join((head, text, *declared, *hints))
    try:
        script = _save_failed(action, folder, large, root)
    except OSError as error:
        # The command's own output must be shown all the same.
        remedy = f"cannot save its folder to run it again: {error}"
        return ActionFailed(text, remedy)
    return ActionFailed(text, f"run again: sh {shlex.quote(str(script))}")


def _make_parent(name: str, path: str) -> None:
    if "/" in name:
        os.makedirs(os.path.dirname(path), exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
