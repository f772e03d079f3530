"""Cut the power at every write, sync and rename of the store, and open it again.

A double of the disk copies the store before each of these calls. What was not synced by
then may be on the disk in any way: with its name or without, empty, as zeros, or in
part. And the remembered digests may be there already.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ingot.engine import atomic_files
from ingot.engine.actions import Action, Output
from ingot.engine.digests import identify
from ingot.engine.gc import collect_garbage
from ingot.engine.store import Store
from ingot.engine.verify_store import verify_store
from tests.cache_server import Machine
from tests.small_actions import COUNT, UPPER

# Above the size from which blobs are synced, and their digests remembered; and above
# that from which inputs are mounted, not copied. It is exported nowhere, so nothing
# reads it but the next action.
LARGE = Action(
    task="large:x",
    argv=("sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x > out.bin"),
    inputs=(),
    outputs=("out.bin",),
)
SUM = Action(
    task="sum:x",
    argv=("sh", "-c", "tr -cd x < large.bin | wc -c > sum.txt"),
    inputs=(("large.bin", Output("large:x", "out.bin")),),
    outputs=("sum.txt",),
    exported_to=("build/sum.txt",),
)
ACTIONS = (UPPER, COUNT, LARGE, SUM)
RESULTS = {"out.txt": b"ABC", "count.txt": b"3\n", "sum.txt": b"300000\n"}

# What a cut may leave of content that was not synced.
Loss = Callable[[Path], object]
LOSSES: dict[str, Loss] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "no name": lambda path: path.unlink(),
}


@dataclass
class Disk:
    """Copies a store before each call that changes it."""

    live: Path
    copies: Path
    synced: set[int] = field(default_factory=set)  # inodes
    cuts: list[tuple[str, Path, frozenset[str]]] = field(default_factory=list)

    def cut(self, call: str) -> None:
        """Keep what the store has now, and which of its files are synced."""
        copy = self.copies / f"{len(self.cuts)}"
        shutil.copytree(self.live, copy, symlinks=True)
        files = (path for path in self.live.rglob("*") if path.is_file())
        synced = frozenset(
            str(path.relative_to(self.live))
            for path in files
            if path.stat().st_ino in self.synced
        )
        self.cuts.append((call, copy, synced))

    def holds(self, path: Path | str) -> bool:
        return Path(path).is_relative_to(self.live)

    def install(self, patch: pytest.MonkeyPatch) -> None:
        write, fsync, replace, unlink = (
            atomic_files.write,
            os.fsync,
            os.replace,
            os.unlink,
        )

        def cut_write(file: object, content: bytes) -> None:
            if self.holds(file.name):  # type: ignore[attr-defined]
                self.cut("write")
                half = len(content) // 2
                write(file, content[:half])  # type: ignore[arg-type]
                self.cut("write in half")
                write(file, content[half:])  # type: ignore[arg-type]
            else:
                write(file, content)  # type: ignore[arg-type]

        def cut_fsync(handle: int) -> None:
            self.cut("fsync")
            fsync(handle)
            self.synced.add(os.fstat(handle).st_ino)

        def cut_replace(source: Path, target: Path) -> None:
            if self.holds(target):
                self.cut("rename")
            replace(source, target)
            if self.holds(target):
                self.cut("after rename")

        def cut_unlink(path: Path, **others: int) -> None:
            if self.holds(path):
                self.cut("unlink")
            unlink(path, **others)

        patch.setattr(atomic_files, "write", cut_write)
        patch.setattr(os, "fsync", cut_fsync)
        patch.setattr(os, "replace", cut_replace)
        patch.setattr(os, "unlink", cut_unlink)


def run(folder: Path, patch: pytest.MonkeyPatch) -> Disk:
    """Build, and limit the store; return its state before each call."""
    machine = Machine(folder / "live")
    disk = Disk(machine.store.root, folder / "cuts")
    with patch.context() as context:
        disk.install(context)
        assert machine.build(*ACTIONS) == ["ran"] * 4
        collect_garbage(machine.store.root, 0, grace_s=0.0)
    return disk


def lose(root: Path, synced: frozenset[str], choose: Callable[[], Loss]) -> None:
    """Lose what was not synced; remember the digest of every blob, right or not."""
    for path in sorted((root / "cas").rglob("*")) + sorted((root / "ac").rglob("*")):
        if path.is_file() and str(path.relative_to(root)) not in synced:
            path.chmod(0o644)
            choose()(path)
    store = Store(root, print)
    for path in (root / "cas").rglob("*"):
        if path.is_file() and path.stat().st_size > atomic_files.SMALL_BYTES:
            store.digests._remember(identify(path.stat()), "sha256", path.name)


def check(folder: Path) -> None:
    """Check that the store opens, and that a build with it has the right results."""
    machine = Machine(folder)
    machine.store.sweep()
    machine.build(*ACTIONS)
    for name, content in RESULTS.items():
        assert (folder / f"build/{name}").read_bytes() == content
    assert not verify_store(machine.store.root).corrupt
    assert Machine(folder).build(*ACTIONS) == []


def cut_everywhere(
    disk: Disk, folder: Path, losses: Callable[[int], list[Callable[[], Loss]]]
) -> int:
    """Check the store after each cut, with the losses that its number has."""
    checked = 0
    for number, (_, copy, synced) in enumerate(disk.cuts):
        for choose in losses(number):
            again = folder / f"again-{checked}"
            shutil.copytree(copy, again / "store")
            lose(again / "store", synced, choose)
            check(again)
            shutil.rmtree(again)
            checked += 1
    return checked


def mixed(seed: int) -> Callable[[], Loss]:
    generator = random.Random(seed)
    return lambda: generator.choice([*LOSSES.values(), lambda path: None])


def test_a_store_opens_right_wherever_the_power_was_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = run(tmp_path, monkeypatch)
    calls = {call for call, _, _ in disk.cuts}
    assert calls >= {"write", "write in half", "fsync", "rename", "after rename"}
    assert "unlink" in calls
    kinds = list(LOSSES.values())

    def one(number: int) -> list[Callable[[], Loss]]:
        return [lambda: kinds[number % len(kinds)]]

    assert cut_everywhere(disk, tmp_path, one) == len(disk.cuts)


@pytest.mark.nightly
def test_a_store_opens_right_whatever_a_power_cut_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = run(tmp_path, monkeypatch)

    def every(number: int) -> list[Callable[[], Loss]]:
        same: list[Callable[[], Loss]] = [
            lambda loss=loss: loss  # type: ignore[misc]
            for loss in LOSSES.values()
        ]
        return [*same, *(mixed(100 * number + i) for i in range(4))]

    assert cut_everywhere(disk, tmp_path, every) == 8 * len(disk.cuts)


def test_a_store_that_would_not_sync_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The double finds what it is for: a large blob that is named before its sync."""
    monkeypatch.setattr(
        atomic_files, "finish", lambda handle, size: os.fchmod(handle, 0o444)
    )
    disk = run(tmp_path, monkeypatch)

    def zeros_of_blobs(path: Path) -> None:
        if "cas" in path.parts:
            LOSSES["zeros"](path)

    with pytest.raises(AssertionError):
        cut_everywhere(disk, tmp_path, lambda _: [lambda: zeros_of_blobs])
