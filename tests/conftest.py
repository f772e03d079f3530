"""Give all tests of a run one store, and skip those that this machine cannot run."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest

from ingot.cli import doctor_command
from ingot.cli.doctor_command import Finding, Level
from ingot.cli.installation import check_installation
from ingot.engine.cache import shared_cache
from ingot.errors import IngotError
from ingot.runtime import calls
from tests import outcomes
from tests.source_tree import ROOT

# A child that is forked while a server runs here may otherwise be ended, by the poller
# of grpc 1.85, before it is another program.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# Terms that this user has accepted would give a model other weights; what tests import
# is allowed in the configuration of this run.
os.environ["XDG_CONFIG_HOME"] = tempfile.mkdtemp(prefix="ingot-configuration-")
atexit.register(shutil.rmtree, os.environ["XDG_CONFIG_HOME"], True)
os.environ.pop("INGOT_ALLOW_OUTSIDE", None)
# Tests of trained weights ask for the accepted terms by a name that workers share.
if accepted := os.environ.pop("INGOT_ACCEPT", None):
    os.environ["INGOT_TEST_ACCEPT"] = accepted

# What a marker requires, and how to find out whether this machine has it.
NEEDS = {
    "aarch64": doctor_command.emulator_findings,
    "nginx": lambda: [program_finding("nginx", "nginx-light")],
    "registry": lambda: [program_finding("docker-registry")],
    "shells": lambda: [program_finding("zsh"), program_finding("fish")],
    "vulkan": doctor_command.vulkan_findings,
}


def program_finding(name: str, package: str = "") -> Finding:
    """Look for a program that only tests need: ./bootstrap does not install it."""
    if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin"):
        return Finding(name, Level.OK, "installed")
    remedy = f"apt-get install {package or name}"
    return Finding(name, Level.ERROR, "not installed", remedy)


@pytest.fixture
def blobs_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results that shared caches have without the contents of their small blobs."""
    monkeypatch.setattr(shared_cache, "INLINE_BYTES", 0)


def pytest_configure(config: pytest.Config) -> None:
    """Give this test run a store: no test reads or writes the user's own.

    INGOT_TEST_STORE names a store that persists between runs. Keys hold everything that
    a result depends on, so a changed tree finds only the results that it would compute.
    The workers of one run share the store, as builds do.
    """
    try:
        check_installation(ROOT)
    except IngotError as error:
        # The environment of another checkout would test the code of that one.
        raise pytest.UsageError(str(error)) from None
    kept = os.environ.get("INGOT_TEST_STORE")
    if kept is None and not hasattr(config, "workerinput"):
        kept = tempfile.mkdtemp(prefix="ingot-test-store-")
        config.add_cleanup(lambda: shutil.rmtree(kept, ignore_errors=True))
    if kept is not None:
        os.environ["INGOT_CACHE"] = str(Path(kept).resolve())


@cache
def missing(marker: str) -> str:
    """What a marker requires and this machine lacks, with the package to install."""
    for finding in NEEDS[marker]():
        if finding.level is Level.ERROR:
            return f"{finding.found}; {finding.remedy}"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start long files first, so that no process ends long after the others."""
    models = Counter(item.path for item in items if item.get_closest_marker("slow"))
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (-models[item.path], -tests[item.path], item.path))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Note what a module of tests reads when it is imported."""
    with outcomes.watched(collector):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    request: pytest.FixtureRequest,
) -> Generator[None, object, object]:
    """Note what a fixture reads: for all tests that share it."""
    with outcomes.watched(request.node):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Set nothing up for a test that passed before on the same files."""
    if not outcomes.look_up(item):
        require(item)


def require(item: pytest.Item) -> None:
    """Skip what cannot run on this machine; in CI it is a failure."""
    for marker in NEEDS:
        if item.get_closest_marker(marker) is not None and (reason := missing(marker)):
            if os.environ.get("CI"):
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Close what a test opened with a driver, whose threads never rest."""
    if item.get_closest_marker("vulkan") is not None:
        calls.close()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Do not repeat a test that passed before on the same files."""
    return True if outcomes.is_known(pyfuncitem) else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Remember the tests that pass, where they say what they read."""
    with outcomes.watched(item):
        yield
    outcomes.remember(item)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were not repeated."""
    passed = terminalreporter.stats.get("passed", [])
    cached = [item for item in passed if outcomes.CACHED in item.user_properties]
    if cached:
        terminalreporter.write_line(
            f"{len(cached)} of them passed before, and nothing that they read changed"
        )
