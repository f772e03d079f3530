"""Test that ingot and Bazel read each other's results from a shared cache.

Not in CI: Bazel is large. `apt-get install bazel-bootstrap`, then
`pytest tests/test_shared_bazel.py`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ingot.engine.action_results import decode_result
from ingot.engine.actions import Digest
from ingot.engine.cache.cache_address import connect
from ingot.engine.cache.shared_cache import SharedCache
from tests.cache_server import IMPATIENT, Machine, serving

pytestmark = pytest.mark.skipif(
    shutil.which("bazel") is None, reason="no Bazel; apt-get install bazel-bootstrap"
)

RULE = """\
genrule(
    name = "upper",
    srcs = ["in.txt"],
    outs = ["out.txt"],
    cmd = "tr a-z A-Z < $< > $@",
)
"""


def bazel(root: Path, tmp_path: Path, cache: str) -> str:
    """Build in a new workspace; return what Bazel says."""
    root.mkdir()
    (root / "WORKSPACE").touch()
    (root / "BUILD").write_text(RULE)
    (root / "in.txt").write_text("abc")
    words = ["bazel", "--batch", f"--output_user_root={tmp_path}/{root.name}-bazel"]
    done = subprocess.run(
        [*words, "build", cache, "--spawn_strategy=local", "//:upper"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (root / "bazel-bin/out.txt").read_text() == "ABC"
    return done.stderr


def test_bazel_and_ingot_use_each_others_entries(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    bazel(tmp_path / "first", tmp_path, f"--disk_cache={folder}")
    machine = Machine(tmp_path / "a", f"file://{folder}")
    assert machine.shared is not None
    with serving() as server:
        remote = connect(server.url, {}, IMPATIENT)
        here = SharedCache(remote, machine.store, print, True, IMPATIENT)
        found = []
        for path in (folder / "ac").rglob("*"):
            if path.is_file():
                names = [p for p, _ in decode_result(path.read_bytes()).outputs]
                key = Digest(path.name, 0)
                result = machine.shared.fetch(key, tuple(names))
                assert result is not None
                found += [machine.store.blob(d).read_bytes() for d in result.blobs()]
                here.publish(key, result.blobs(), again=False)
        assert b"ABC" in found
        assert machine.reported == []
        # In a folder of another name, with nothing but what ingot wrote.
        said = bazel(tmp_path / "second", tmp_path, f"--remote_cache={server.url}")
        assert "1 remote cache hit" in said
