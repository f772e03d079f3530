"""Sandbox a command: it sees only the base system, declared tools and its own folder.

The base system is read-only, the folder appears as `/tmp/ingot`, /tmp is private, and
there is no network unless the action declares it. Tools are the interpreter, the
folders of a wheel, the libraries of an emulated processor, the description of a driver.
The sandbox lacks what an action does not declare, so that no result can depend on it
unnoticed. Without bubblewrap, commands run without a sandbox, and the platform of their
actions records this.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from os.path import realpath
from pathlib import Path

from ingot.engine import network as downloads
from ingot.engine import process, toolchain

# One fixed folder for every action, so that no output depends on where it was built.
WORKDIR = "/tmp/ingot"

# Programs and libraries of the distribution, which every tool is linked against. Not
# included: /usr/local, /usr/share, /etc except the linker's files, /var, and home
# folders. A benchmark reads the processor's topology to choose its number of threads.
BASE = (
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/sys/devices/system",
)

# The base system's programs and libraries, which every sandbox has.
IN_BASE = ("/usr/bin/", "/usr/lib/")


@cache
def kind() -> str:
    """Return how commands are sandboxed here: "bubblewrap", or "none"."""
    started = probe()
    return "bubblewrap" if started is not None and started.wait() == 0 else "none"


@cache
def probe() -> process.Process | None:
    """Start to try the sandbox: a caller that comes early does not have to wait."""
    if shutil.which("bwrap") is None:
        return None
    return process.start((*bubblewrap(Path("/tmp"), {}, {}, (), False), "true"))


@cache
def bind_mounts(tools: tuple[str, ...], network: bool) -> tuple[str, ...]:
    """Return bubblewrap's arguments that mount the tools' files.

    Raises: IngotError if a tool is not installed.
    """
    words: list[str] = []
    for path in visible_paths(tools, network):
        text = str(path)
        if path.is_symlink():
            words += ["--symlink", realpath(path), text]
        elif text.startswith("/dev/"):
            words += ["--dev-bind", text, text]
        elif not text.startswith(IN_BASE):
            words += ["--ro-bind", text, text]
    # Hide the tools of the base system that the action does not declare. Elsewhere they
    # are not visible anyway, and each mount is a twentieth of a sandbox's cost.
    for tool, files in toolchain.SYSTEM_FILES.items():
        for name in files:
            file = realpath(name)
            if tool not in tools and file.startswith(IN_BASE) and os.path.exists(name):
                words += ["--ro-bind", "/dev/null", file]
    return tuple(words)


def visible_paths(tools: tuple[str, ...], network: bool) -> tuple[Path, ...]:
    """Return the files and folders that are mounted in addition to the base system.

    Raises: IngotError if a tool is not installed.
    """
    found = [path for tool in tools for path in toolchain.paths(tool)]
    if network:
        found += downloads.paths()
    # Folders before their content: a later mount covers an earlier one.
    return tuple(sorted(set(found)))


def bubblewrap(
    folder: Path,
    env: dict[str, str],
    mounts: dict[str, Path],
    tools: tuple[str, ...],
    network: bool,
) -> tuple[str, ...]:
    """Return the arguments that start a command in a sandbox, without the command.

    `mounts` are files and folders that the command finds in the folder under these
    names, and that no user can write to, root included.

    Raises: IngotError if a tool is not installed.
    """
    command = [
        process.program("bwrap"),
        "--unshare-all",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        # With them, root could make a read-only mount writable.
        *("--cap-drop", "ALL"),
        *_base(),
        *("--dev", "/dev"),
        *("--proc", "/proc"),
        *("--tmpfs", "/tmp"),
        *bind_mounts(tools, network),
        *("--bind", str(folder), WORKDIR),
        *("--chdir", WORKDIR),
    ]
    if network:
        command.append("--share-net")
    for name, path in mounts.items():
        command += ["--ro-bind", str(path), f"{WORKDIR}/{name}"]
    for name, value in env.items():
        command += ["--setenv", name, value]
    return (*command, "--")


@cache
def _base() -> tuple[str, ...]:
    """Return the arguments that mount the base system, links as links."""
    words: list[str] = []
    for path in BASE:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.exists(path):
            words += ["--ro-bind", path, path]
    return tuple(words)
