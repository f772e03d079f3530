"""Measure the limits of the machine for a number of threads.

`limits.c` measures them. It is compiled for this machine's processor at its first use.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True, slots=True)
class Limits:
    """What all threads together achieve."""

    read_gb_per_s: float  # from memory
    fma_gflop_per_s: float  # f32, multiply-adds in registers


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


def measure(program: Path, threads: int) -> Limits:
    """Return the limits for so many threads, which takes a second."""
    done = subprocess.run(
        [str(program), str(threads)], check=True, capture_output=True, text=True
    )
    read, fma = map(float, done.stdout.split())
    return Limits(read, fma)
