"""An action in; its command's folder, and what is said when it fails, out."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

from ingot.engine import process, sandbox, toolchain
from ingot.engine.actions import Action, Digest, InlineText, Output, ResolvedAction
from ingot.errors import IngotError

# An input file above this is shown to the command where it is, not copied or linked.
LARGE_BYTES = 4 << 20

# Stands for the failed command's folder until its script is written.
HERE = "@here@"


class ActionFailed(IngotError):
    """A command failed; its whole output, and the way to run it again."""


def stage_inputs(
    action: Action,
    resolved: ResolvedAction,
    folder: Path,
    blob: Callable[[Action, Output, Digest], Path],
) -> dict[str, Path]:
    """Fill the folder with inputs; return the large ones, which are not copied.

    `blob` says where an earlier action's output is; it is read only.
    """
    digests = dict(resolved.inputs)
    large = {}
    for name, source in action.inputs:
        path = f"{folder}/{name}"
        _make_parent(name, path)
        if isinstance(source, InlineText):
            with open(path, "xb") as file:
                file.write(source.text.encode())
        elif isinstance(source, Output):
            kept = blob(action, source, digests[name])
            # A link changes the file's ctime, so that it would be hashed once more.
            if digests[name].size_bytes > LARGE_BYTES:
                large[name] = kept
            else:
                os.link(kept, path)
        elif digests[name].size_bytes > LARGE_BYTES:
            large[name] = source.path.resolve()
        else:
            shutil.copyfile(source.path, path)
    for name in action.outputs:
        _make_parent(name, f"{folder}/{name}")
    return large


def run_command(
    action: Action, folder: Path, large: dict[str, Path]
) -> process.Completed:
    """Return how the command ended, run in the folder that `lay_out` has filled.

    Raises: IngotError where a tool is not installed; KeyboardInterrupt when the build
    is being stopped.
    """
    network = ("network", "yes") in action.platform
    sandboxed = process.sandbox() == "bubblewrap"
    return process.run(
        (toolchain.executable(action.argv[0]), *action.argv[1:]),
        folder,
        {**environment(), **(proxies() if network else {}), **dict(action.env)},
        mounts=large,
        sandboxed=sandboxed,
        network=network,
        bind_mounts=sandbox.bind_mounts(action.tools, network) if sandboxed else (),
    )


@cache
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


def proxies() -> dict[str, str]:
    """Return how this machine reaches the network: a download's bytes are pinned.

    Not written for `run-again.sh`: a proxy's address may have a password.
    """
    return {
        name: os.environ[name]
        for word in ("http_proxy", "https_proxy", "no_proxy", "ssl_cert_file")
        for name in (word, word.upper())
        if name in os.environ
    }


def keep_failed(
    action: Action, folder: Path, large: dict[str, Path], root: Path
) -> Path:
    """Keep a failed command's folder; return the script in it that runs it again.

    It runs again confined where it was: what the sandbox hides may be why it failed.
    """
    kept = root / "build/.ingot/failed" / action.task.replace(":", "-")
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(
        folder,
        kept,
        ignore=lambda *_: {Path(name).name for name in large},
        copy_function=_link_or_copy,
    )
    variables = {**environment(), **dict(action.env)}
    argv = [toolchain.executable(action.argv[0]), *action.argv[1:]]
    lines = ['cd -- "$(dirname -- "$0")"']
    if process.sandbox() == "bubblewrap":
        network = ("network", "yes") in action.platform
        bind_mounts = sandbox.bind_mounts(action.tools, network)
        words = process.bubblewrap(Path(HERE), variables, large, network, bind_mounts)
        lines.append(shlex.join([*words, *argv]).replace(HERE, '"$PWD"'))
    else:
        for name, path in large.items():
            (kept / name).symlink_to(path)
        lines += [f"export {name}={shlex.quote(v)}" for name, v in variables.items()]
        lines.append(shlex.join(argv))
    script = kept / "run-again.sh"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return script


def describe_failure(
    action: Action,
    done: process.Completed,
    missing: list[str],
    folder: Path,
    root: Path,
    kept: Path | OSError,
) -> ActionFailed:
    """Return the error: what failed, all that it printed, how to run it again.

    `kept` is the script that runs it again, or why there is none.
    `folder` is where it ran; files of the checkout `root` and of this machine that it
    looked for and that are not its own are named.
    """
    if not folder.is_dir():
        return ActionFailed(
            f"{action.task}: the folder that it ran in was removed meanwhile: {folder}",
            "is the store, or a part of it, being removed? then run doit again",
        )
    # Late: its patterns cost every build's start, and only failures need them.
    from ingot.engine import missing_inputs

    what = f"failed with exit code {done.exit_code}"
    if done.exit_code < 0:
        what = f"was killed by signal {-done.exit_code}"
    elif done.exit_code == 0:
        what = f"did not write {', '.join(missing)}"
    text = done.output.decode(errors="replace").rstrip()
    hints = missing_inputs.explain(action, text, folder, root)
    return ActionFailed(
        "\n".join((f"{action.task}: {action.argv[0]} {what}", text, *hints)),
        f"cannot be kept to run again: {kept}"
        if isinstance(kept, OSError)
        else f"run again: sh {shlex.quote(str(kept))}",
    )


def _make_parent(name: str, path: str) -> None:
    if "/" in name:
        os.makedirs(os.path.dirname(path), exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
