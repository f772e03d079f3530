"""Test that the build outputs in a checkout are complete, and no others are left."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import build_outputs
from ingot.engine.actions import Action, Digest
from ingot.engine.store import Store
from tests.checkout import Checkout
from tests.project import ROOT

PAIR = Action(
    task="bundle:x",
    argv=("sh", "-c", "echo a > a; echo b > b"),
    inputs=(),
    outputs=("a", "b"),
    exported_to=("build/x/bundle/a", "build/x/bundle/b"),
)
# Copies the first file that is shown, but for its name, and dies.
KILLED = """
import os, sys
from pathlib import Path
from tests.checkout import Checkout
from tests.test_exports import PAIR

replace = os.replace
def die(source, target):
    if str(target).endswith("/bundle/a"):
        os.kill(os.getpid(), 9)
    replace(source, target)
os.replace = die
Checkout(Path(sys.argv[1]), Path(sys.argv[2])).build(PAIR)
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a", tmp_path / "cache")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_build_killed_while_it_exports_leaves_no_partial_file(tmp_path: Path) -> None:
    root, cache = tmp_path / "a", tmp_path / "cache"
    words = [sys.executable, "-c", KILLED, str(root), str(cache)]
    assert subprocess.run(words, cwd=ROOT).returncode == -9
    assert names(root / "build/x/bundle") == []
    assert len(names(root / "build/.ingot/tmp")) == 1
    checkout = Checkout(root, cache)
    assert names(root / "build/.ingot/tmp") == []
    assert checkout.build(PAIR) == [("bundle:x", "restored")]
    assert names(root / "build/x/bundle") == ["a", "b"]


def test_a_build_output_that_is_no_longer_exported_is_removed(
    checkout: Checkout,
) -> None:
    checkout.build(PAIR)
    one = replace(
        PAIR,
        argv=("sh", "-c", "echo a > a"),
        outputs=("a",),
        exported_to=PAIR.exported_to[:1],
    )
    (checkout.root / "build/x/bundle/own.txt").write_text("the user's")
    checkout.build(one)
    assert names(checkout.root / "build/x/bundle") == ["a", "own.txt"]


def test_a_sweep_leaves_the_files_of_a_running_build(checkout: Checkout) -> None:
    folder = checkout.root / "build/.ingot/tmp"
    folder.mkdir(parents=True)
    for name in ("running", "killed"):
        (folder / name).touch()
    with (folder / "running").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        build_outputs.sweep(checkout.root)
        assert names(folder) == ["running"]


def test_two_builds_that_export_one_file_at_once_leave_a_complete_one(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, inside = Store.copy_to, threading.Barrier(2)

    def slow(store: Store, digest: Digest, path: Path, temporary: str) -> None:
        # The second waits for the first, so they never meet here.
        with pytest.raises(threading.BrokenBarrierError):
            inside.wait(0.1)
        inside.reset()
        copy(store, digest, path, temporary)

    monkeypatch.setattr(Store, "copy_to", slow)
    contents = [bytes([number]) * 100_000 for number in range(2)]
    target = checkout.root / "build/out"

    def show(content: bytes) -> None:
        digest = checkout.store.put_bytes(content)
        with build_outputs._temporary(checkout.root, str(target)) as temporary:
            checkout.store.copy_to(digest, target, temporary)

    threads = [threading.Thread(target=show, args=(item,)) for item in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert target.read_bytes() in contents
    assert names(checkout.root / "build/.ingot/tmp") == []
    assert os.stat(target).st_nlink == 1
