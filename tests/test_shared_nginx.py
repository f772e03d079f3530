"""Test nginx as a shared cache, and the memory that a large blob needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.nginx import nginx
from tests.cache_server import Machine
from tests.project import ROOT
from tests.small_actions import COUNT, UPPER

# Sends or fetches one blob; prints by how much that raised the peak of the memory.
PASSING = """
import resource, sys
from pathlib import Path
from tests.cache_server import Machine
from ingot.engine.digests import hash_file
from ingot.engine.actions import Digest

machine = Machine(Path(sys.argv[1]), sys.argv[2])
machine.shared.ensure_local(Digest("0" * 64, 1))
digest = hash_file(sys.argv[3])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if sys.argv[4] == "send":
    machine.shared.send({digest: Path(sys.argv[3])})
else:
    assert machine.shared.ensure_local(digest)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.fixture(name="nginx")
def running_nginx(tmp_path: Path) -> Iterator[str]:
    """The URL of an nginx of the test's own."""
    with nginx(tmp_path / "nginx") as url:
        yield url


@pytest.mark.nginx
def test_two_machines_share_an_nginx(nginx: str, tmp_path: Path) -> None:
    first = Machine(tmp_path / "a", nginx)
    second = Machine(tmp_path / "b", nginx)
    assert first.build(UPPER, COUNT) == ["ran", "ran"]
    assert second.build(UPPER, COUNT) == ["fetched", "fetched"]
    assert first.reported == second.reported == []
    # Another run of pytest that starts meanwhile takes away what others may do there.
    base = tmp_path.parent
    assert [path.stat().st_mode & 0o077 for path in (tmp_path, base)] == [0, 0]


@pytest.mark.nginx
@pytest.mark.usefixtures("blobs_apart")
def test_nginx_stores_a_corrupt_blob_and_the_client_rejects_it(
    nginx: str, tmp_path: Path
) -> None:
    Machine(tmp_path / "a", nginx).build(UPPER)
    for path in (tmp_path / "nginx/files/cas").iterdir():
        path.write_bytes(b"garbage")
    second = Machine(tmp_path / "b", nginx)
    assert second.build(UPPER) == ["ran"]
    assert "is corrupt there; it is discarded and rebuilt" in second.reported[0]


@pytest.mark.nginx
@pytest.mark.parametrize("content", ["zeros", "noise"])
def test_memory_does_not_grow_with_the_blob(
    nginx: str, tmp_path: Path, content: str
) -> None:
    # Zeros come packed a thousandfold: unpacked at once, they would fill the memory.
    path = tmp_path / "big.bin"
    with open(path, "wb") as file:
        for _ in range(96):
            file.write(bytes(1 << 20) if content == "zeros" else os.urandom(1 << 20))
    assert moved_kb(tmp_path / "a", nginx, path, "send") < 24_000
    assert moved_kb(tmp_path / "b", nginx, path, "fetch") < 24_000


def moved_kb(root: Path, address: str, blob: Path, how: str) -> int:
    """By how many kB the peak of a process's memory rose while the blob moved."""
    words = [sys.executable, "-c", PASSING, str(root), address, str(blob), how]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
