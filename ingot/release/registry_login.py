"""Find the user and password of a registry, and read what it asks to log in with.

`docker login`, `podman login` and `oras login` write them into a JSON file, in base64.

Source: docker.com, "docker login" and "Token authentication"; RFC 9110, section 11.6.1.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_PART = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Challenge:
    """How a registry wants to know its user."""

    kind: Literal["basic", "bearer"]
    realm: str = ""  # where a token is to be had
    service: str = ""
    scope: str = ""


def read_challenge(header: str) -> Challenge | None:
    """Return what the header `WWW-Authenticate` asks for; None if it is not known."""
    kind, _, rest = header.strip().partition(" ")
    if kind.lower() == "basic":
        return Challenge("basic")
    parts = dict(_PART.findall(rest))
    if kind.lower() != "bearer" or not parts.get("realm"):
        return None
    service, scope = parts.get("service", ""), parts.get("scope", "")
    return Challenge("bearer", parts["realm"], service, scope)


def authorization(host: str, environment: Mapping[str, str]) -> str:
    """Return the header for a user who is logged in at this host, or ""."""
    home = environment.get("HOME", "/")
    folders = (
        environment.get("DOCKER_CONFIG") or f"{home}/.docker",
        f"{environment.get('XDG_RUNTIME_DIR', '/run')}/containers",
    )
    for folder, name in zip(folders, ("config.json", "auth.json"), strict=True):
        path = Path(os.path.expanduser(folder)) / name
        try:
            found = json.loads(path.read_bytes())["auths"][host]["auth"]
            base64.b64decode(found, validate=True)
        except (OSError, ValueError, LookupError, TypeError, binascii.Error):
            continue
        return f"Basic {found}"
    return ""
