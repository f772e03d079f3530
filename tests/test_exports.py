"""Test that the build outputs in a checkout are complete, and no others are left."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ingot.engine import build_outputs, digests
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


LARGE = replace(
    PAIR,
    argv=("sh", "-c", "head -c 2000000 /dev/zero > a; echo b > b"),
)
A, B = PAIR.exported_to


def blob_of(checkout: Checkout, path: str) -> Path:
    digest = checkout.store.digests.of_file(checkout.root / path)
    return checkout.store.blob(digest)


def test_a_large_output_is_a_link_to_a_read_only_blob(checkout: Checkout) -> None:
    checkout.build(LARGE)
    link = checkout.root / A
    assert os.path.samefile(link, blob_of(checkout, A))
    assert stat.filemode(link.stat().st_mode) == "-r--r--r--"
    # What people may want to edit is theirs.
    assert not os.path.samefile(checkout.root / B, blob_of(checkout, B))
    assert names(checkout.root / "build/.ingot/tmp") == []


def test_checkouts_share_a_blob_and_disturb_each_other_not(tmp_path: Path) -> None:
    first, second = (Checkout(tmp_path / x, tmp_path / "cache") for x in "ab")
    first.build(LARGE)
    second.build(LARGE)
    assert os.path.samefile(first.root / A, second.root / A)
    for checkout in (first, second):
        assert Checkout(checkout.root, tmp_path / "cache").build(LARGE) == []
    shutil.rmtree(second.root)
    assert Checkout(first.root, tmp_path / "cache").build(LARGE) == []


def test_a_linked_blob_is_read_once_and_not_by_the_next_build(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout.build(LARGE)
    read = []
    monkeypatch.setattr(digests, "hash_file", lambda path: read.append(path))
    again = Checkout(checkout.root, checkout.store.root)
    assert again.build(LARGE) == []
    assert read == []


@pytest.mark.parametrize("keeps_time", [False, True])
def test_an_edit_of_a_link_is_noticed_and_healed(
    checkout: Checkout, keeps_time: bool
) -> None:
    checkout.build(LARGE)
    link = checkout.root / A
    before = link.stat()
    link.chmod(0o644)
    with link.open("r+b") as file:
        file.write(b"edited")
    link.chmod(0o444)
    if keeps_time:
        os.utime(link, ns=(before.st_atime_ns, before.st_mtime_ns))
    again = Checkout(checkout.root, checkout.store.root)
    assert again.build(LARGE) == [("bundle:x", "ran")]
    assert "discarded a corrupt blob" in " ".join(again.warnings)
    assert link.read_bytes() == bytes(2_000_000)
    assert os.path.samefile(link, blob_of(again, A))


def test_a_file_in_place_of_a_link_is_replaced(checkout: Checkout) -> None:
    checkout.build(LARGE)
    link = checkout.root / A
    link.unlink()
    link.write_bytes(b"own")
    again = Checkout(checkout.root, checkout.store.root)
    assert again.build(LARGE) == [("bundle:x", "restored")]
    assert link.read_bytes() == bytes(2_000_000)
    assert again.warnings == []


def test_a_blob_that_rotted_is_not_linked(checkout: Checkout) -> None:
    checkout.build(LARGE)
    blob = blob_of(checkout, A)
    (checkout.root / A).unlink()
    blob.chmod(0o644)
    with blob.open("r+b") as file:
        file.write(b"rot")
    again = Checkout(checkout.root, checkout.store.root)
    # A disk that rots changes no time: the digest is remembered as it was.
    seen = digests.identify(blob.stat())
    again.store.digests._remember(seen, "sha256", blob.name)
    assert again.build(LARGE) == [("bundle:x", "ran")]
    assert (checkout.root / A).read_bytes() == bytes(2_000_000)


def test_where_links_are_impossible_there_are_copies(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise OSError(18, "Invalid cross-device link", source)

    monkeypatch.setattr(os, "link", link)
    checkout.build(LARGE)
    assert (checkout.root / A).read_bytes() == bytes(2_000_000)
    assert not os.path.samefile(checkout.root / A, blob_of(checkout, A))
    assert Checkout(checkout.root, checkout.store.root).build(LARGE) == []
    assert names(checkout.root / "build/.ingot/tmp") == []


def test_a_build_killed_while_it_links_leaves_nothing(tmp_path: Path) -> None:
    root, cache = tmp_path / "a", tmp_path / "cache"
    program = KILLED.replace("PAIR", "LARGE")
    words = [sys.executable, "-c", program, str(root), str(cache)]
    assert subprocess.run(words, cwd=ROOT).returncode == -9
    assert len(names(root / "build/.ingot/tmp")) == 2
    checkout = Checkout(root, cache)
    assert names(root / "build/.ingot/tmp") == []
    assert checkout.build(LARGE) == [("bundle:x", "restored")]
    assert checkout.warnings == []
