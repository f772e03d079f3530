"""Name the files that a failed command looked for and that its action does not declare.

In the sandbox, a command that opens an undeclared file of this machine gets "no such
file", and reports it in its own words. Those words name the file; if the file exists
outside of the sandbox, the missing declaration is the reason for the failure.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ingot.engine import sandbox, toolchain
from ingot.engine.actions import Action

# How tools report a missing file: libc, Python, LLVM, IREE, the shell.
LACKS = re.compile(
    r"no such file|not found|cannot (open|find|stat|access)|can't open|does not exist"
    r"|(could not|couldn't|unable to|failed to) (open|find|read|load)|no module named",
    re.IGNORECASE,
)
MODULE = re.compile(r"No module named '([\w.]+)'")
PATH = re.compile(r"[\w./@%+~-]*[\w@%+~-]")
# Paths inside of the sandbox, not of this machine.
OWN = (sandbox.WORKDIR, "/proc", "/dev")


def explain(action: Action, words: str, folder: Path, root: Path) -> list[str]:
    """Return a line for each file that exists and that the command lacked.

    `folder` is where it ran, with the files that it had; `root` is the checkout.
    """
    found: dict[Path, str] = {}
    for line in words.splitlines():
        if LACKS.search(line):
            for name in _named(line):
                path = root / name
                given = path != Path(name) and os.path.exists(folder / name)
                # A name that is too long, or a path without permission, is not a file.
                if not given and os.path.isfile(path):
                    found[path] = name
    lines = []
    for path, name in found.items():
        wheel = toolchain.owner(path)
        if wheel:
            lines.append(_line(name, "tools", f"'{wheel}'", action.task))
        else:
            lines.append(_line(name, "inputs", "it", action.task))
    return lines


def _line(name: str, kind: str, what: str, task: str) -> str:
    return f"{name} exists but is not among the {kind} of {task}: declare {what}"


def _named(line: str) -> Iterator[str]:
    """Yield words that may be a file's name, absolute or relative to the checkout."""
    for module in MODULE.findall(line):
        name = module.replace(".", "/")
        # A module of the checkout, or of a wheel.
        for folder in ("", f"{toolchain.site_packages()}/"):
            yield f"{folder}{name}.py"
            yield f"{folder}{name}/__init__.py"
    for name in PATH.findall(line):
        # "/tmp/ingot/x" is "x" in the command's folder.
        own = name.removeprefix(f"{sandbox.WORKDIR}/")
        if not own.startswith(OWN) and Path(own).name not in ("", ".", ".."):
            yield own
