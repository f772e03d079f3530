"""Declare the build's tasks, one function per stage, in the order in which they run.

`doit build model=NAME target=NAME` builds bundles; `doit list` shows what there is.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingot.cli.tasks import Checkout

DOIT_CONFIG = {"default_tasks": ["build"]}

CHECKOUT = Checkout(Path(__file__).parent)

Tasks = Iterator[dict[str, Any]]


def task_fetch() -> Tasks:
    """Download the files that manifests pin by their sha256."""
    yield from CHECKOUT.tasks("fetch")


def task_tokenizer() -> Tasks:
    """Write the vocabularies of GGUF files as tokenizer.json."""
    yield from CHECKOUT.tasks("tokenizer")


def task_specialize() -> Tasks:
    """Make one static module of each component and its dims."""
    yield from CHECKOUT.tasks("specialize")


def task_link() -> Tasks:
    """Join entry points and specialised modules into one module a model."""
    yield from CHECKOUT.tasks("link")


def task_compile() -> Tasks:
    """Compile the linked module for each target."""
    yield from CHECKOUT.tasks("compile")


def task_ir() -> Tasks:
    """Write the compiler's intermediate IR, for `doit inspect`; not for build."""
    yield from CHECKOUT.tasks("ir")


def task_bake() -> Tasks:
    """Write the weights as an IREE parameter archive."""
    yield from CHECKOUT.tasks("bake")


def task_check() -> Tasks:
    """Compare each target's own artifact with the oracles and the golden outputs."""
    yield from CHECKOUT.tasks("check")


def task_bench() -> Tasks:
    """Time every entry point on each target."""
    yield from CHECKOUT.tasks("bench")


def task_bundle() -> Tasks:
    """Pack what is shipped, with its provenance."""
    yield from CHECKOUT.tasks("bundle")


def task_build() -> dict[str, Any]:
    """Build, check, time and pack: everything."""
    return CHECKOUT.build()
