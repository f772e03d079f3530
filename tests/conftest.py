"""What tests share: a store of their own, and what some need of the machine."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ingot.cli import target_smoke_test
from ingot.cli.findings import Finding, Level
from ingot.engine.cache import inline_blobs

# A child that is forked while a server runs here may otherwise be ended, by the poller
# of grpc 1.85, before it is another program.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# What a marker asks for, and what tells whether it is here.
NEEDS = {
    "aarch64": target_smoke_test.emulator_findings,
    "nginx": lambda: [nginx_finding()],
    "vulkan": target_smoke_test.vulkan_findings,
}


def nginx_finding() -> Finding:
    """Whether nginx is here: only tests need it, so ./bootstrap brings none."""
    if shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"):
        return Finding(Level.OK, "nginx", "it is here")
    return Finding(Level.ERROR, "nginx", "not here", "apt-get install nginx-light")


@pytest.fixture
def blobs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that shared caches have without the contents of their small blobs."""
    monkeypatch.setattr(inline_blobs, "INLINE_BYTES", 0)


@pytest.fixture(autouse=True, scope="session")
def private_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The store of this run of the tests: none reads or writes the user's own."""
    base = tmp_path_factory.getbasetemp()
    # Workers of one run share it, as builds share a store.
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_CACHE", str(folder / "store"))
        yield folder / "store"


@cache
def missing(marker: str) -> str:
    """What of a marker's needs is missing, and the package that brings it; or ''."""
    for finding in NEEDS[marker]():
        if finding.level is Level.ERROR:
            return f"{finding.found}; {finding.remedy}"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start long files first, so that no process ends long after the others."""
    models = Counter(item.path for item in items if item.get_closest_marker("slow"))
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (-models[item.path], -tests[item.path], item.path))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run on this machine; in CI it is a failure."""
    for marker in NEEDS:
        if item.get_closest_marker(marker) is not None and (reason := missing(marker)):
            if os.environ.get("CI"):
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)
