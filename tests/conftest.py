"""What tests share: a store of their own, and what some need of the machine."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ingot.cli import doctor
from ingot.cli.doctor import Finding, Level
from ingot.engine.cache import shared_cache
from tests import outcomes

# A child that is forked while a server runs here may otherwise be ended, by the poller
# of grpc 1.85, before it is another program.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# What a marker asks for, and what tells whether it is here.
NEEDS = {
    "aarch64": doctor.emulator_findings,
    "nginx": lambda: [nginx_finding()],
    "vulkan": doctor.vulkan_findings,
}


def nginx_finding() -> Finding:
    """Look for nginx: only tests need it, so ./bootstrap does not install it."""
    if shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"):
        return Finding("nginx", Level.OK, "installed")
    return Finding("nginx", Level.ERROR, "not installed", "apt-get install nginx-light")


@pytest.fixture
def blobs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that shared caches have without the contents of their small blobs."""
    monkeypatch.setattr(shared_cache, "INLINE_BYTES", 0)


@pytest.fixture(autouse=True, scope="session")
def private_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the store of this test run: no test reads or writes the user's own.

    INGOT_TEST_STORE names one that is kept between runs. Keys hold everything that a
    result depends on, so a changed tree finds only the results that it would compute.
    """
    base = tmp_path_factory.getbasetemp()
    # The workers of one run share the store, as builds do.
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    store = Path(os.environ.get("INGOT_TEST_STORE") or folder / "store").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INGOT_CACHE", str(store))
        yield store


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


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Do not repeat a test that passed before on the same files."""
    return True if outcomes.is_known(pyfuncitem) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Remember the tests that pass, where they say what they read."""
    with outcomes.remembered(item):
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were not repeated."""
    passed = terminalreporter.stats.get("passed", [])
    cached = [item for item in passed if outcomes.CACHED in item.user_properties]
    if cached:
        terminalreporter.write_line(
            f"{len(cached)} of them passed before, and nothing that they read changed"
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run on this machine; in CI it is a failure."""
    for marker in NEEDS:
        if item.get_closest_marker(marker) is not None and (reason := missing(marker)):
            if os.environ.get("CI"):
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)
