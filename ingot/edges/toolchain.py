"""Tool names in, their place on this machine and their identity out.

A wheel's identity is the hash of its RECORD without scripts and byte code, which differ
between machines; a Debian tool's is the hash of the file that does the work. Both are
computed once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

from ingot.edges.digests import Digests, hash_file
from ingot.errors import IngotError

AARCH64_RUNTIME = Path(sys.prefix) / "share/ingot/aarch64-runtime"

# Files that stand for a tool installed by the system; the first that exists counts.
SYSTEM_FILES = {
    "qemu-aarch64": ("/usr/bin/qemu-aarch64", "/usr/bin/qemu-aarch64-static"),
    "arm64-libc": ("/usr/aarch64-linux-gnu/lib/libc.so.6",),
    "mesa-llvmpipe": (
        "/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so",
        "/usr/lib/aarch64-linux-gnu/libvulkan_lvp.so",
    ),
}

# What a user installs when a tool is missing.
REMEDIES = {
    "qemu-aarch64": "apt-get install qemu-user",
    "arm64-libc": "apt-get install libc6-arm64-cross",
    "mesa-llvmpipe": "apt-get install mesa-vulkan-drivers",
    "iree-base-runtime-aarch64": "./bootstrap",
}


@cache
def site_packages() -> Path:
    """Return the folder that wheels are installed in."""
    return Path(sysconfig.get_path("purelib"))


def identity(tool: str, digests: Digests) -> str:
    """Return what changes whenever the tool's behaviour may.

    Raises: IngotError where the tool is not installed.
    """
    if tool == "python":
        return platform.python_version()
    if tool in SYSTEM_FILES:
        for name in SYSTEM_FILES[tool]:
            if os.path.exists(name):
                # Resolved first: a new version may come as a new link target.
                return digests.fact(
                    os.path.realpath(name), "sha256", lambda p: hash_file(p).hash
                )
        raise _missing(tool)
    folder, name = site_packages(), tool
    if tool == "iree-base-runtime-aarch64":
        folder, name = AARCH64_RUNTIME, "iree-base-runtime"
    pattern = f"{name.replace('-', '_')}-*.dist-info/RECORD"
    for record in sorted(folder.glob(pattern)):
        version = record.parent.name.removesuffix(".dist-info").rpartition("-")[2]
        return f"{version} {digests.fact(record, 'wheel', _hash_record)}"
    raise _missing(tool)


def executable(name: str) -> str:
    """Return the path of a program that an action may start.

    Raises: IngotError where it is not installed.
    """
    if name == "python":
        return sys.executable
    # iree-* are thin Python scripts in bin/; the programs themselves start 0.1 s
    # sooner.
    for folder in ("iree/compiler/_mlir_libs", "iree/_runtime_libs"):
        path = site_packages() / folder / name
        if path.exists():
            return str(path)
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    if found is None:
        raise _missing(name)
    return found


def _hash_record(path: Path | str) -> str:
    """Return the hash of a RECORD's lines that are the same on every machine."""
    hasher = hashlib.sha256()
    for line in sorted(Path(path).read_text(encoding="utf-8").splitlines()):
        name = line.partition(",")[0]
        if name.startswith("..") or name.endswith(".pyc") or ".dist-info/" in name:
            continue
        hasher.update(f"{line}\n".encode())
    return hasher.hexdigest()


def _missing(tool: str) -> IngotError:
    remedy = REMEDIES.get(tool, f"pip install {tool}")
    return IngotError(f"tool '{tool}' is not installed", f"run: {remedy}")
