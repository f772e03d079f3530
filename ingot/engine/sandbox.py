"""An action's tools in, what its command may see of this machine out.

Tools are shown by their own files: an interpreter, the folders of a wheel, libraries
of an emulated processor, a driver's description. What an action uses without declaring
it is not there, so no result can depend on it unnoticed.
"""

from __future__ import annotations

import os
from functools import cache
from os.path import realpath
from pathlib import Path

from ingot.engine import toolchain

# What a download asks the system: where names are looked up, whom to trust.
NETWORK_PLACES = (
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)

# Where the base system has programs and libraries, which are shown without a word.
IN_BASE = ("/usr/bin/", "/usr/lib/")


@cache
def bind_mounts(tools: tuple[str, ...], network: bool) -> tuple[str, ...]:
    """Return bubblewrap's words for what the tools consist of.

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
    # A tool in the base system is there for those who declare it; elsewhere it is not
    # shown anyway, and each mount is a twentieth of what a sandbox costs.
    for tool, files in toolchain.SYSTEM_FILES.items():
        for name in files:
            place = realpath(name)
            if tool not in tools and place.startswith(IN_BASE) and os.path.exists(name):
                words += ["--ro-bind", "/dev/null", place]
    return tuple(words)


def visible_paths(tools: tuple[str, ...], network: bool) -> tuple[Path, ...]:
    """Return the files and folders that are shown besides the base system.

    Raises: IngotError where a tool is not installed.
    """
    found = [path for tool in tools for path in toolchain.places(tool)]
    if network:
        trusted = os.environ.get("SSL_CERT_FILE", "")
        places = (*NETWORK_PLACES, trusted)
        known = [name for name in places if os.path.exists(name)]
        # systemd's /etc/resolv.conf leads to /run, which is not shown.
        found += [Path(item) for name in known for item in (name, realpath(name))]
    # Folders before what is in them: a later mount lies over an earlier one.
    return tuple(sorted(set(found)))
