"""Start processes: only this module does.

A command dies with this process, however this process dies: bubblewrap takes care of
that for sandboxed commands, and for others a shell that waits for the end of a pipe.
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
from typing import NamedTuple, TypeAlias

from ingot.engine.action_limits import Usage
from ingot.engine.actions import Limits

Process: TypeAlias = "subprocess.Popen[bytes]"

# This shell kills its process group, in which commands without a sandbox run, when this
# process is gone: `read` ends with the pipe. setpriv in front of each command would
# cost 1.3 ms.
KEEPER = ("-c", "read -r _; kill -KILL 0")

_running: set[Process] = set()
# A signal may arrive while the main thread holds it: its handler, `stop_all`, runs
# there.
_lock = threading.RLock()
_keepers: list[Process] = []
_stopped = False


class Completed(NamedTuple):
    """How a command ended; `output` has both streams in the order they were written."""

    exit_code: int
    output: bytes
    exceeded: str = ""  # the limit that stopped it


@cache
def program(name: str) -> str:
    """Return the path of a system program, looked up only once."""
    return shutil.which(name) or name


def start(argv: tuple[str, ...]) -> Process:
    """Start a command without input, output and environment; do not wait for it."""
    return subprocess.Popen(
        argv,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run(
    argv: tuple[str, ...],
    folder: Path,
    env: dict[str, str],
    limits: Limits | None = None,
) -> Completed:
    """Run `argv` in `folder` with exactly this environment; return how it ended.

    Commands with limits are sandboxed: they start with bubblewrap, which makes them die
    with this process. Only these can be stopped with all their children.

    Raises: KeyboardInterrupt when the build is being stopped.
    """
    with _lock:
        if _stopped:
            raise KeyboardInterrupt
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=limits is not None,
            process_group=_kept_group() if limits is None else None,
        )
        _running.add(process)
    exceeded = ""
    try:
        output, exceeded = _output_of(process, limits)
    finally:
        with _lock:
            _running.discard(process)
    if _stopped:
        raise KeyboardInterrupt
    return Completed(process.returncode, output, exceeded)


def _output_of(process: Process, limits: Limits | None) -> tuple[bytes, str]:
    """Return what the process printed, and the limit for which it was killed."""
    if limits is None:
        return process.communicate()[0], ""
    usage = Usage(process.pid, limits)
    while True:
        try:
            return process.communicate(timeout=usage.wait_s())[0], ""
        except subprocess.TimeoutExpired:
            if exceeded := usage.exceeded():
                process.kill()
                return process.communicate()[0], exceeded


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


def _end(keeper: Process) -> None:
    """Kill what is left in the group; wait for the shell, so that it is no zombie."""
    if keeper.poll() is None:
        os.killpg(keeper.pid, signal.SIGKILL)
    keeper.communicate()
