"""Give downloads what the user's configuration says about the network.

These are proxies, certificates, and the settings of pip, npm and Hugging Face's hub.
None of it is in an action's key, because every download is verified by a pinned digest.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from os.path import realpath
from pathlib import Path

# Name resolution and trusted certificates.
SYSTEM_PATHS = (
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)

_SETTINGS = ("pip_", "npm_config_")
_VARIABLES = (
    *("http_proxy", "https_proxy", "no_proxy", "ssl_cert_file"),
    *("home", "xdg_config_home"),  # where the files of settings are
    *("hf_endpoint", "hf_token"),
)

# A file or folder in a setting: `find-links = /srv/wheels`, or `file:///srv/simple`.
_LOCAL = re.compile(r"(?:^|[\s=])(?:file://)?(/[^\s/]+/[^\s]+)")


def variables() -> dict[str, str]:
    """Return the variables of the environment that a download gets.

    `run-again.sh` does not contain them: a proxy's address may have a password.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name.lower() in _VARIABLES or name.lower().startswith(_SETTINGS)
    }


@cache
def paths() -> tuple[Path, ...]:
    """Return the files and folders that a download may read, links with their ends."""
    named = [path for text in _settings() for path in _LOCAL.findall(text)]
    found = [*SYSTEM_PATHS, *_files(), *named, os.environ.get("SSL_CERT_FILE", "")]
    known = [name for name in found if os.path.exists(name)]
    # systemd's /etc/resolv.conf is a link to /run, which is not mounted.
    return tuple(Path(item) for name in known for item in (name, realpath(name)))


def _files() -> Iterator[str]:
    """Yield the files of settings that pip and npm would read."""
    home = os.environ.get("HOME", "/")
    yield from ("/etc/pip.conf", "/etc/xdg/pip/pip.conf", f"{sys.prefix}/pip.conf")
    yield f"{os.environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/pip/pip.conf"
    yield from (f"{home}/.pip/pip.conf", f"{home}/.netrc")
    yield from ("/etc/npmrc", f"{home}/.npmrc")


def _settings() -> Iterator[str]:
    """Yield the texts of all settings."""
    for name, value in os.environ.items():
        if name.lower().startswith(_SETTINGS):
            yield value
    for name in _files():
        try:
            yield Path(name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
