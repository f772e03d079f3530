"""Start processes: only this module does.

Where bubblewrap works, a command sees the base system read-only, the paths that the
caller names, its own folder as `/tmp/ingot`, a private /tmp and no network; elsewhere
it runs without a sandbox, and the action's platform says so. Either way it dies with
this process, however this process dies: bubblewrap takes care of that, and for other
commands a shell that waits for the end of a pipe.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

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

# This shell kills its process group, in which commands without a sandbox run, when this
# process is gone: `read` ends with the pipe. setpriv in front of each command would
# cost 1.3 ms.
KEEPER = ("-c", "read -r _; kill -KILL 0")

_running: set[subprocess.Popen[bytes]] = set()
# A signal may arrive while the main thread holds it: its handler, `stop_all`, runs
# there.
_lock = threading.RLock()
_keepers: list[subprocess.Popen[bytes]] = []
_stopped = False


class Completed(NamedTuple):
    """How a command ended; `output` has both streams in the order they were written."""

    exit_code: int
    output: bytes


@cache
def program(name: str) -> str:
    """Return the path of a system program, looked up only once."""
    return shutil.which(name) or name


@cache
def sandbox() -> str:
    """Return how commands are sandboxed here: "bubblewrap", or "none"."""
    probe = ask_sandbox()
    return "bubblewrap" if probe is not None and probe.wait() == 0 else "none"


@cache
def ask_sandbox() -> subprocess.Popen[bytes] | None:
    """Begin to try the sandbox: who asks before he needs to know does not wait."""
    if shutil.which("bwrap") is None:
        return None
    return subprocess.Popen(
        [*bubblewrap(Path("/tmp"), {}, {}, network=False), "true"],
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run(
    argv: tuple[str, ...],
    folder: Path,
    env: dict[str, str],
    mounts: dict[str, Path],
    sandboxed: bool,
    network: bool,
    bind_mounts: tuple[str, ...] = (),
) -> Completed:
    """Run `argv` in `folder` with exactly this environment; return how it ended.

    `mounts` are files and folders that a sandboxed command finds in the folder under
    these names, and that no user can write to, root included; `bind_mounts` are
    bubblewrap's arguments for what else it sees. Without the sandbox a command sees
    everything, and always has the network.

    Raises: KeyboardInterrupt when the build is being stopped.
    """
    if sandboxed:
        command = [*bubblewrap(folder, env, mounts, network, bind_mounts), *argv]
        # bubblewrap is process 1 in there, and /proc/1/environ is readable in there.
        cwd, variables = None, dict[str, str]()
    else:
        command = list(argv)
        cwd, variables = folder, env
    with _lock:
        if _stopped:
            raise KeyboardInterrupt
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=sandboxed,
            process_group=None if sandboxed else _kept_group(),
        )
        _running.add(process)
    try:
        output, _ = process.communicate()
    finally:
        with _lock:
            _running.discard(process)
    if _stopped:
        raise KeyboardInterrupt
    return Completed(process.returncode, output)


def stop_all() -> None:
    """Kill every running command with its children, and start no more."""
    global _stopped
    with _lock:
        _stopped = True
        for process in _running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getpgid(process.pid), signal.SIGKILL)


def _kept_group() -> int:
    """Return the process group that is killed when this process is gone."""
    if not _keepers or _keepers[-1].poll() is not None:
        keeper = subprocess.Popen(
            [program("sh"), *KEEPER],
            cwd="/",
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        _keepers.append(keeper)
        atexit.register(_end, keeper)
    return _keepers[-1].pid


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """Kill what is left in the group; wait for the shell, so that it is no zombie."""
    if keeper.poll() is None:
        os.killpg(keeper.pid, signal.SIGKILL)
    keeper.communicate()


def bubblewrap(
    folder: Path,
    env: dict[str, str],
    mounts: dict[str, Path],
    network: bool,
    bind_mounts: tuple[str, ...] = (),
) -> list[str]:
    """Return the arguments that start a command in a sandbox, without the command."""
    command = [
        program("bwrap"),
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
        *bind_mounts,
        *("--bind", str(folder), WORKDIR),
        *("--chdir", WORKDIR),
    ]
    if network:
        command.append("--share-net")
    for name, path in mounts.items():
        command += ["--ro-bind", str(path), f"{WORKDIR}/{name}"]
    for name, value in env.items():
        command += ["--setenv", name, value]
    return [*command, "--"]


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
