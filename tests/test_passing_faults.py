"""Disks and servers that fail in one place: the rest goes on, and it is said."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingot.edges import builds, verify_store
from ingot.edges.shared.cache import SharedCache
from ingot.edges.shared.remote import BlobRefused, Kind, Patience
from ingot.edges.shared.uploads import N_THREADS, Uploads
from ingot.edges.store import Store
from ingot.front import store as command
from ingot.keys import digest_of
from ingot.values import ActionResult, Digest


def test_a_blob_that_the_disk_cannot_read_is_named_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Store(tmp_path, print)
    bad, good = kept.put_bytes(b"bad"), kept.put_bytes(b"good")
    kept.put_action(digest_of(b"key"), ActionResult((("out", good),)))
    read = verify_store.hash_file

    def failing(path: Path) -> Digest:
        if path == kept.blob(bad):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read(path)

    monkeypatch.setattr(verify_store, "hash_file", failing)
    found = verify_store.verify_store(tmp_path)
    assert found.unreadable == (f"{kept.blob(bad)}: Input/output error",)
    assert (found.blobs, found.damaged) == (1, ())
    assert kept.blob(bad).exists()
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path))
    assert command._verify() == 1
    assert f"cannot be read: {kept.blob(bad)}: Input" in capsys.readouterr().out


def test_a_full_disk_leaves_the_list_of_builds_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "builds.jsonl"
    for number in range(4):
        builds.append(path, {"at": number})

    def full(file: Path, content: bytes) -> int:
        file.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    builds.trim(path, most=2)
    assert [line["at"] for line in builds.read(path)] == [0, 1, 2, 3]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("first", [0, 3], ids=["at once", "midway"])
def test_a_disk_that_copies_nothing_gets_a_whole_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    copy, counts = os.copy_file_range, iter((first, 0))
    monkeypatch.setattr(
        os,
        "copy_file_range",
        lambda source, target, _: (
            copy(source, target, count) if (count := next(counts)) else 0
        ),
    )
    kept = Store(tmp_path / "store", print)
    kept.copy_to(kept.put_bytes(b"content"), tmp_path / "copy", tmp_path / "temporary")
    assert (tmp_path / "copy").read_bytes() == b"content"


def test_work_that_raises_ends_no_thread(capsys: pytest.CaptureFixture[str]) -> None:
    uploads, done = Uploads(), []
    for _ in range(N_THREADS):
        uploads.add(lambda: done.append(1 // 0))
    uploads.add(lambda: done.append(1))
    assert uploads.finish(timeout_s=20) == 0
    assert done == [1]
    assert capsys.readouterr().err.count("ZeroDivisionError") == N_THREADS


class Garbled:
    """A cache of which one blob cannot be unpacked from its first piece on."""

    name = "garbled"

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        if not self.contents[digest.hash]:
            raise BlobRefused("it sends no zstd")
        return iter((self.contents[digest.hash],))

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        raise AssertionError

    def missing(self, digests: object) -> set[Digest]:
        raise AssertionError


def test_a_blob_that_cannot_be_unpacked_is_one_damaged_blob(tmp_path: Path) -> None:
    bad, good = digest_of(b"bad"), digest_of(b"good")
    said: list[str] = []
    shared = SharedCache(
        Garbled({bad.hash: b"", good.hash: b"good"}),
        Store(tmp_path, said.append),
        said.append,
        writes=False,
        patience=Patience(),
    )
    assert not shared.bring(bad)
    assert shared.bring(good)
    assert said == [
        f"shared cache garbled: blob {bad} is damaged there; dropped, it is made again"
    ]
