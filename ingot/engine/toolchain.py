"""Find the tools that actions start, and compute their identities.

A wheel's identity is the hash of its RECORD without scripts and byte code, which differ
between machines; a Debian tool's identity is the hash of the files that do the work.
Both are computed once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

from ingot.engine.digests import Digests
from ingot.errors import IngotError

AARCH64_RUNTIME = Path(sys.prefix) / "share/ingot/aarch64-runtime"

# Files that identify a tool of the system; the first that exists counts.
SYSTEM_FILES = {
    "qemu-aarch64": ("/usr/bin/qemu-aarch64", "/usr/bin/qemu-aarch64-static"),
    "arm64-libc": ("/usr/aarch64-linux-gnu/lib/libc.so.6",),
    "mesa-llvmpipe": (
        "/usr/lib/x86_64-linux-gnu/libvulkan_lvp.so",
        "/usr/lib/aarch64-linux-gnu/libvulkan_lvp.so",
    ),
}

# Other system files that a tool reads; devices are those of a GPU.
SYSTEM_PATHS = {
    "arm64-libc": ("/usr/aarch64-linux-gnu",),
    "mesa-llvmpipe": (
        "/usr/share/vulkan",
        "/etc/vulkan",
        "/usr/share/drirc.d",
        "/dev/dri",
        "/sys",
    ),
}

# How a user installs a missing tool.
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
    """Return a text that changes whenever the tool's behaviour may change.

    Raises: IngotError if the tool is not installed.
    """
    if tool == "python":
        return platform.python_version()
    if tool in SYSTEM_FILES:
        for name in SYSTEM_FILES[tool]:
            if os.path.exists(name):
                return _system_identity(tool, name, digests)
        raise _missing(tool)
    record = _record(tool)
    version = record.parent.name.removesuffix(".dist-info").rpartition("-")[2]
    return f"{version} {digests.fact(record, 'wheel', _hash_record)}"


def _system_identity(tool: str, name: str, digests: Digests) -> str:
    """Return the hashes of a tool's file and of the libraries that work for it."""
    names = [name]
    if tool == "mesa-llvmpipe":
        libraries = digests.fact(name, "libraries", _driver_libraries).split()
        found = (f"{Path(name).parent}/{item}" for item in libraries)
        names += [item for item in found if os.path.exists(item)]
    # Resolved first: a new version may come as a new link target.
    return " ".join(digests.of_file(os.path.realpath(item)).hash for item in names)


def _driver_libraries(driver: Path | str) -> str:
    """Return the loader in front of a Vulkan driver, and the compilers that it uses."""
    named = re.findall(rb"\0(libLLVM[\w.+-]*)(?=\0)", Path(driver).read_bytes())
    return " ".join(("libvulkan.so.1", *sorted({item.decode() for item in named})))


@cache
def paths(tool: str) -> tuple[Path, ...]:
    """Return the files and folders that the tool consists of, and no others.

    Raises: IngotError if the tool is not installed.
    """
    if tool == "python":
        return _interpreter()
    if tool in SYSTEM_FILES:
        names = (*SYSTEM_FILES[tool], *SYSTEM_PATHS.get(tool, ()))
        return tuple(Path(name) for name in names if os.path.exists(name))
    if tool == "iree-base-runtime-aarch64":
        return (_record(tool).parents[1],)
    record = _record(tool)
    lines = record.read_text(encoding="utf-8").splitlines()
    files = {line.partition(",")[0] for line in lines}
    tops = {_top(name, files) for name in files if not name.startswith("..")}
    return tuple(record.parents[1] / top for top in sorted(tops - {"__pycache__"}))


def _top(name: str, files: set[str]) -> str:
    """Return the largest part of a wheel file's path that only this wheel uses."""
    first, *rest = name.split("/")
    alone = f"{first}/__init__.py" in files or first.endswith((".libs", ".dist-info"))
    # Several wheels may install into a namespace such as `iree`.
    return first if alone or not rest else f"{first}/{rest[0]}"


def _interpreter() -> tuple[Path, ...]:
    """Return the files of the interpreter, its environment and the standard library."""
    # From the base: an environment has no standard library of its own.
    base = {"base": sys.base_prefix, "installed_base": sys.base_prefix}
    library = Path(str(sysconfig.get_config_var("LIBDIR")))
    shared = library / str(sysconfig.get_config_var("INSTSONAME"))
    found = (
        Path(sys.executable),
        Path(os.path.realpath(sys.executable)),
        Path(sys.prefix) / "pyvenv.cfg",
        Path(sysconfig.get_path("stdlib", vars=base)),
        shared,
    )
    return tuple(path for path in found if path.exists())


def owner(path: Path) -> str:
    """Return the name of the installed wheel that owns the file, or ""."""
    try:
        name = str(path.relative_to(site_packages()))
    except ValueError:
        return ""
    for record in sorted(site_packages().glob("*.dist-info/RECORD")):
        lines = record.read_text(encoding="utf-8").splitlines()
        if any(line.startswith((f"{name},", f"{name}/")) for line in lines):
            stem = record.parent.name.removesuffix(".dist-info")
            return stem.rpartition("-")[0].replace("_", "-")
    return ""


def _record(tool: str) -> Path:
    """Return the path of the wheel's list of files.

    Raises: IngotError if it is not installed.
    """
    folder, name = site_packages(), tool
    if tool == "iree-base-runtime-aarch64":
        folder, name = AARCH64_RUNTIME, "iree-base-runtime"
    pattern = f"{name.replace('-', '_')}-*.dist-info/RECORD"
    for record in sorted(folder.glob(pattern)):
        return record
    raise _missing(tool)


@cache
def executable(name: str) -> str:
    """Return the path of a program that an action may start.

    Raises: IngotError if it is not installed.
    """
    if name == "python":
        return sys.executable
    # iree-* in bin/ are thin Python scripts; the programs themselves start 0.1 s
    # faster.
    for folder in ("iree/compiler/_mlir_libs", "iree/_runtime_libs"):
        path = site_packages() / folder / name
        if path.exists():
            return str(path)
    found = shutil.which(name, path=f"{Path(sys.executable).parent}:/usr/bin:/bin")
    if found is None:
        raise _missing(name)
    return found


def _hash_record(path: Path | str) -> str:
    """Return the hash of the lines of a RECORD that are equal on every machine."""
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
