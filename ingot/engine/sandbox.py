"""Choose what an action's command may see of this machine: the files of its tools.

These are the interpreter, the folders of a wheel, the libraries of an emulated
processor, the description of a driver. What an action does not declare is not in the
sandbox, so that no result can depend on it unnoticed.
"""

from __future__ import annotations

import os
from functools import cache
from os.path import realpath
from pathlib import Path

from ingot.engine import toolchain

# What a download needs of the system: name resolution and trusted certificates.
NETWORK_PLACES = (
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)

# The base system's programs and libraries, which every sandbox has.
IN_BASE = ("/usr/bin/", "/usr/lib/")


@cache
def bind_mounts(tools: tuple[str, ...], network: bool) -> tuple[str, ...]:
    """Return bubblewrap's arguments that mount the tools' files.

    Raises: IngotError where a tool is not installed.
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
            place = realpath(name)
            if tool not in tools and place.startswith(IN_BASE) and os.path.exists(name):
                words += ["--ro-bind", "/dev/null", place]
    return tuple(words)


def visible_paths(tools: tuple[str, ...], network: bool) -> tuple[Path, ...]:
    """Return the files and folders that are mounted in addition to the base system.

    Raises: IngotError where a tool is not installed.
    """
    found = [path for tool in tools for path in toolchain.places(tool)]
    if network:
        trusted = os.environ.get("SSL_CERT_FILE", "")
        places = (*NETWORK_PLACES, trusted)
        known = [name for name in places if os.path.exists(name)]
        # systemd's /etc/resolv.conf is a link to /run, which is not mounted.
        found += [Path(item) for name in known for item in (name, realpath(name))]
    # Folders before their content: a later mount covers an earlier one.
    return tuple(sorted(set(found)))
