"""Measure the limits of the machine for a number of threads.

`limits.c` measures them. It is compiled for this machine's processor at its first use.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
MEMORY = "memory"
# The fastest instruction for each stored type first.
PRODUCTS = {
    "f32": ("f32 zmm", "f32 ymm"),
    "bf16": ("AMX bf16", "vdpbf16ps", "f32 zmm", "f32 ymm"),
    "i8": ("AMX i8", "vpdpbusd", "f32 zmm", "f32 ymm"),
    "i4": ("AMX i8", "vpdpbusd", "f32 zmm", "f32 ymm"),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """What all threads together achieve."""

    giga_per_s: float
    unit: str  # "GB/s", "GFLOP/s", "GOP/s"


def compiled(folder: Path) -> Path | None:
    """Return the program, built below the folder; None without a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    program = folder / "limits"
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        flags = ("-O3", "-march=native", "-pthread")
        argv = [compiler, *flags, str(SOURCE), "-o", str(program)]
        subprocess.run(argv, check=True)
    return program


def measure(program: Path | None, threads: int) -> dict[str, Limit]:
    """Return the limits for so many threads by name, which takes seconds.

    Without a program, none is known.
    """
    if program is None:
        return {}
    done = subprocess.run(
        [str(program), str(threads)], check=True, capture_output=True, text=True
    )
    lines = (line.split(maxsplit=2) for line in done.stdout.splitlines())
    return {name: Limit(float(number), unit) for number, unit, name in lines}
