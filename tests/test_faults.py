"""Test that a full, read-only or corrupt store is reported, and loses nothing.

A small or read-only disk is made by bubblewrap, in a namespace of the test's own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

# One action that writes 8 MB, built as the executor builds it.
PROGRAM = """
import sys
from pathlib import Path
from ingot.engine.store import Store
from ingot.errors import IngotError
from ingot.engine.executor import Executor
from ingot.engine.actions import Action

action = Action(
    task="big:x",
    argv=("sh", "-c", "head -c 8000000 /dev/zero > out.bin"),
    inputs=(),
    outputs=("out.bin",),
    exported_to=("build/out.bin",),
)
try:
    store = Store(Path(sys.argv[2]), lambda text: print("warning:", text))
    Executor(Path(sys.argv[1]), store, lambda *e: print(e[0], e[1])).execute(action)
except IngotError as error:
    print(error)
    sys.exit(1)
"""


def run(tmp_path: Path, *mounts: str) -> subprocess.CompletedProcess[str]:
    """Run the action with the store `tmp_path/cache` on a disk of the test's choice."""
    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "checkout").mkdir(exist_ok=True)
    places = [str(tmp_path / "checkout"), str(tmp_path / "cache")]
    namespace = ["bwrap", "--dev-bind", "/", "/", *mounts, "--chdir", str(ROOT), "--"]
    return subprocess.run(
        [*namespace, sys.executable, "-c", PROGRAM, *places],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_full_store_is_reported_and_the_next_build_with_space_succeeds(
    tmp_path: Path,
) -> None:
    cache = str(tmp_path / "cache")
    full = run(tmp_path, "--size", "4000000", "--tmpfs", cache)
    assert full.returncode == 1, full.stdout + full.stderr
    assert "No space left on device" in full.stdout
    roomy = run(tmp_path)
    assert (roomy.returncode, roomy.stdout) == (0, "big:x ran\n"), roomy.stderr
    assert (tmp_path / "checkout/build/out.bin").stat().st_size == 8_000_000


def test_a_full_checkout_is_reported_and_the_store_keeps_its_results(
    tmp_path: Path,
) -> None:
    checkout = str(tmp_path / "checkout")
    full = run(tmp_path, "--size", "4000000", "--tmpfs", checkout)
    assert full.returncode == 1, full.stdout + full.stderr
    assert "cannot write: No space left on device" in full.stdout
    assert "finished actions are cached" in full.stdout
    roomy = run(tmp_path)
    assert (roomy.returncode, roomy.stdout) == (0, "big:x restored\n"), roomy.stderr


def test_a_read_only_store_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    run(tmp_path)
    cache = str(tmp_path / "cache")
    done = run(tmp_path, "--ro-bind", cache, cache)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"store {cache}: cannot write: Read-only file system" in done.stdout
    assert "set INGOT_CACHE to another folder" in done.stdout


@pytest.mark.parametrize("name", ["digests.sqlite", "records.sqlite"])
def test_a_corrupt_database_is_recreated(tmp_path: Path, name: str) -> None:
    run(tmp_path)
    place = tmp_path / (
        "cache" if name == "digests.sqlite" else "checkout/build/.ingot"
    )
    for path in place.glob(f"{name}*"):
        path.unlink()
    (place / name).write_bytes(b"no database " * 1000)
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (0, "big:x restored\n"), done.stderr


@pytest.mark.parametrize("size", [65_536 * n for n in (1, 4, 64, 122)])
@pytest.mark.parametrize("place", ["cache", "checkout"])
def test_a_disk_that_fills_at_any_moment_is_reported_and_harms_nothing(
    tmp_path: Path, place: str, size: int
) -> None:
    full = run(tmp_path, "--size", str(size), "--tmpfs", str(tmp_path / place))
    assert full.returncode == 1, full.stdout + full.stderr
    assert "Traceback" not in full.stderr
    assert re.search("No space left|disk is full", full.stdout), full.stdout
    roomy = run(tmp_path)
    assert roomy.returncode == 0, roomy.stdout + roomy.stderr
    assert (tmp_path / "checkout/build/out.bin").stat().st_size == 8_000_000
