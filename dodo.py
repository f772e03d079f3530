"""The build's tasks, one function per stage, in the order in which they run.

`doit build model=NAME target=NAME` builds bundles; `doit list` shows what there is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingot.cli.tasks import Front, n_parallel

DOIT_CONFIG = {
    "default_tasks": ["build"],
    "backend": "none",
    "num_process": n_parallel(),
    "par_type": "thread",
}

FRONT = Front(Path(__file__).parent)

Tasks = Iterator[dict[str, Any]]


def task_fetch() -> Tasks:
    """Download the files that manifests pin by their sha256."""
    yield from FRONT.tasks("fetch")


def task_specialize() -> Tasks:
    """Make one static module of each component and its dims."""
    yield from FRONT.tasks("specialize")


def task_link() -> Tasks:
    """Join entry points and specialised modules into one module a model."""
    yield from FRONT.tasks("link")


def task_compile() -> Tasks:
    """Compile the linked module for each target."""
    yield from FRONT.tasks("compile")


def task_debug() -> Tasks:
    """Compile entry points that refuse addresses outside of tensors; not for build."""
    yield from FRONT.tasks("debug")


def task_phase() -> Tasks:
    """Write what the compiler makes on the way, for `doit inspect`; not for build."""
    yield from FRONT.tasks("phase")


def task_bake() -> Tasks:
    """Write the weights as an IREE parameter archive."""
    yield from FRONT.tasks("bake")


def task_check() -> Tasks:
    """Compare each target's own artifact with the oracles and the golden outputs."""
    yield from FRONT.tasks("check")


def task_bench() -> Tasks:
    """Time every entry point on each target."""
    yield from FRONT.tasks("bench")


def task_bundle() -> Tasks:
    """Pack what is shipped, with its provenance."""
    yield from FRONT.tasks("bundle")


def task_build() -> dict[str, Any]:
    """Build, check, time and pack: everything."""
    return FRONT.build()
