"""Copy the checkout's sources, with a manifest that stores weights in another type.

Each copy is built by its own `doit` with the user's store, so that nothing in the store
is compiled again and no build output of the checkout is touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingot.model.target import Target

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("ingot", "models", "components", "oracles", "targets")
FILES = ("dodo.py", "pyproject.toml")

# How often the memory of processes is read, s: Linux records each one's peak.
INTERVAL_S = 0.01


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a process and everything that it started."""

    wall_s: float
    peak_bytes: int  # resident, of the largest of its processes


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of the sources, for one model and target."""

    root: Path
    model: str
    target: Target

    @property
    def vmfb(self) -> Path:
        """Return the path of the compiled module."""
        return self.root / "build" / self.model / self.target.resolved / "model.vmfb"

    @property
    def irpa(self) -> Path:
        """Return the path of the baked weights."""
        weights = self.root / "build" / self.model / "weights"
        return weights / self.target.layout.name / "model.irpa"

    def build(self, cache: Path | None = None) -> Cost:
        """Build the module and its weights; `cache` is another store."""
        doit = [sys.executable, "-m", "doit"]
        tasks = [
            f"compile:{self.model}@{self.target.resolved}",
            f"bake:{self.model}@{self.target.layout.name}",
        ]
        variables = dict(os.environ)
        if cache is not None:
            variables["INGOT_CACHE"] = str(cache)
        return cost([*doit, *tasks], self.root, variables)


def copied(folder: Path, model: str, target: str) -> Checkout:
    """Return a copy of the sources with its manifest, but without build outputs."""
    from ingot.model.target import read_target

    folder.mkdir(parents=True, exist_ok=True)
    for name in SOURCES:
        shutil.rmtree(folder / name, ignore_errors=True)
        # With their times, because a build remembers digests by them.
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy2(ROOT / name, folder / name)
    read = read_target(ROOT / "targets" / f"{target}.yaml", ROOT)
    return Checkout(folder, model, read)


def store_as(checkout: Checkout, stored: str) -> None:
    """Change the type in which the manifest stores weights."""
    _edit(checkout, (r"(stored: )f32\b", rf"\g<1>{stored}"))


def read_from(checkout: Checkout, gguf: Path) -> None:
    """Make the manifest take its weights from a GGUF file of any types."""
    place = os.path.relpath(gguf, checkout.root / "models")
    _edit(checkout, (r"source: \{kind: .*\}", f"source: {{kind: gguf, path: {place}}}"))
    if "naming: hf" in _manifest(checkout).read_text(encoding="utf-8"):
        _edit(checkout, (r"naming: hf\b", "naming: gguf"))
        _edit(checkout, (r"(match: \"\*\", )source: f32, ", r"\g<1>"))


def _manifest(checkout: Checkout) -> Path:
    return checkout.root / "models" / f"{checkout.model}.yaml"


def _edit(checkout: Checkout, change: tuple[str, str]) -> None:
    path = _manifest(checkout)
    text, count = re.subn(*change, path.read_text(encoding="utf-8"))
    if count != 1:
        raise SystemExit(f"{path}: expected '{change[0]}' once, found it {count} times")
    path.write_text(text, encoding="utf-8")


def cost(argv: list[str], cwd: Path, env: dict[str, str] | None = None) -> Cost:
    """Run a command with its output on standard error; return its cost.

    Raises: SystemExit where it fails.
    """
    start = time.perf_counter()
    process = subprocess.Popen(argv, cwd=cwd, env=env, stdout=sys.stderr)
    peaks = [0]
    ended = threading.Event()

    # Polled, because the sandbox's init does not report what its children used.
    def watch() -> None:
        while not ended.wait(INTERVAL_S):
            peaks[0] = max(peaks[0], *map(_peak_bytes, _family(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    wall = time.perf_counter() - start
    ended.set()
    watcher.join()
    if code:
        raise SystemExit(f"{' '.join(argv)}: exit code {code}")
    return Cost(wall, peaks[0])


def _family(process: int) -> list[int]:
    """Return the process and all processes that it and its children have started."""
    found = [process]
    for parent in found:
        for place in Path(f"/proc/{parent}/task").glob("*/children"):
            # A process that has ended meanwhile has no files.
            with contextlib.suppress(OSError):
                found += map(int, place.read_text(encoding="ascii").split())
    return found


def _peak_bytes(process: int) -> int:
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
