"""Test that a file's digest is computed once, and never used for other content."""

from __future__ import annotations

import mmap
import os
import subprocess
import time
from pathlib import Path

import pytest

from ingot.engine import digests
from ingot.engine.actions import Digest
from ingot.engine.digests import Digests
from tests.checkout import Checkout


def test_a_content_is_hashed_once_for_all_checkouts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = Checkout(tmp_path / "a", tmp_path / "cache")
    weights = tmp_path / "weights.bin"
    weights.write_bytes(bytes(1_000_000))
    time.sleep(0.05)  # Younger files are not remembered: they may still change.
    hashed: list[str] = []
    original = digests.hash_file

    def count(path: Path | str) -> Digest:
        hashed.append(str(path))
        return original(path)

    monkeypatch.setattr(digests, "hash_file", count)
    for each in (checkout, Checkout(tmp_path / "b", tmp_path / "cache")):
        for _ in range(3):
            each.store.digests.of_file(weights)
    assert hashed == [str(weights)]
    os.utime(weights)
    time.sleep(0.05)
    checkout.store.digests.of_file(weights)
    checkout.store.digests.of_file(weights)
    assert hashed == [str(weights)] * 2


def test_a_file_of_a_clock_that_is_ahead_is_hashed_once(tmp_path: Path) -> None:
    path, memo = tmp_path / "f", digests.Digests(tmp_path / "d.sqlite")
    path.write_text("one")
    os.utime(path, (2e9, 2e9 + time.time()))
    time.sleep(2e-9 * digests.SETTLED_NS)
    read: list[Path | str] = []

    def note(file: Path | str) -> str:
        read.append(file)
        return "one"

    for _ in range(2):
        memo.fact(path, "text", note)
    assert read == [path]


def test_a_file_that_changes_while_it_is_read_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, memo = tmp_path / "f", digests.Digests(tmp_path / "d.sqlite")
    path.write_text("one")
    clock = [path.stat().st_mtime_ns]
    monkeypatch.setattr(time, "time_ns", lambda: clock[0])
    # Changed within one tick of the kernel's clock, its times stay.
    same = (1, 1, 3, clock[0], clock[0])
    monkeypatch.setattr(digests, "identify", lambda _: same)

    def slowly(file: Path | str) -> str:
        text = Path(file).read_text()
        path.write_text("two")
        clock[0] += 10 * digests.SETTLED_NS
        return text

    assert memo.fact(path, "text", slowly) == "one"
    assert memo.fact(path, "text", slowly) == "two"


def test_a_file_that_changes_through_a_map_is_read_again(tmp_path: Path) -> None:
    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True
    )
    if kind.stdout.strip() == "tmpfs":
        pytest.skip("a map of a file in memory changes no time")
    path = tmp_path / "weights"
    path.write_bytes(bytes(1 << 20))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[5000] = 1
        time.sleep(3e-9 * digests.SETTLED_NS)
        known = Digests(tmp_path / "digests.sqlite")
        first = known.of_file(path)
        time.sleep(3e-9 * digests.SETTLED_NS)
        mapped[5000] = 2
        second = known.of_file(path)
        assert second == digests.hash_file(path) != first
