"""Test that one failure of a disk or a server is reported, and the rest continues."""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ingot.cli import store_commands as command
from ingot.engine import json_lines, task_records, verify_store
from ingot.engine.actions import ActionResult, Digest, digest_of
from ingot.engine.cache.backend import BlobRejected, Kind, Timeouts, Unreachable
from ingot.engine.cache.folder_cache import FolderBackend
from ingot.engine.cache.shared_cache import N_UPLOAD_THREADS, SharedCache, UploadQueue
from ingot.engine.digests import hash_file
from ingot.engine.store import Store
from ingot.engine.task_records import Records, TaskRecord
from ingot.errors import IngotError


def test_a_blob_that_the_disk_cannot_read_is_reported_and_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Store(tmp_path, print)
    bad, good = kept.put_bytes(b"bad"), kept.put_bytes(b"good")
    kept.put_action(digest_of(b"key"), ActionResult((("out", good),)))
    read = hash_file

    def failing(path: Path) -> Digest:
        if path == kept.blob(bad):
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read(path)

    monkeypatch.setattr(verify_store, "hash_file", failing)
    found = verify_store.verify_store(tmp_path)
    assert found.unreadable == (f"{kept.blob(bad)}: Input/output error",)
    assert (found.blobs, found.corrupt) == (1, ())
    assert kept.blob(bad).exists()
    monkeypatch.setenv("INGOT_CACHE", str(tmp_path))
    assert command.verify() == 1
    assert f"cannot be read: {kept.blob(bad)}: Input" in capsys.readouterr().out


def test_a_full_disk_leaves_the_list_of_builds_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "builds.jsonl"
    for number in range(4):
        json_lines.append(path, {"at": number})

    def full(file: Path, content: bytes) -> int:
        file.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    json_lines.trim(path, most=2)
    assert [line["at"] for line in json_lines.read(path)] == [0, 1, 2, 3]
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
    uploads, done = UploadQueue(), []
    for _ in range(N_UPLOAD_THREADS):
        uploads.add(lambda: done.append(1 // 0))
    uploads.add(lambda: done.append(1))
    assert uploads.finish(timeout_s=20) == 0
    assert done == [1]
    assert capsys.readouterr().err.count("ZeroDivisionError") == N_UPLOAD_THREADS


class Garbled:
    """A cache of which one blob cannot be unpacked from its first piece on."""

    name = "garbled"

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        if not self.contents[digest.hash]:
            raise BlobRejected("it sends no zstd")
        return iter((self.contents[digest.hash],))

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        raise AssertionError

    def missing(self, digests: object) -> set[Digest]:
        raise AssertionError


def test_a_blob_that_cannot_be_unpacked_is_corrupt(tmp_path: Path) -> None:
    bad, good = digest_of(b"bad"), digest_of(b"good")
    said: list[str] = []
    shared = SharedCache(
        Garbled({bad.hash: b"", good.hash: b"good"}),
        Store(tmp_path, said.append),
        said.append,
        writes=False,
        timeouts=Timeouts(),
    )
    assert not shared.ensure_local(bad)
    assert shared.ensure_local(good)
    assert said == [
        f"shared cache garbled: blob {bad} is corrupt there;"
        " it is discarded and rebuilt"
    ]


class Held:
    """A cache that has one blob, and counts how often it is moved."""

    name = "held"

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.both = threading.Barrier(2)
        self.moved: list[str] = []
        self.fails = 0

    def get(self, kind: Kind, digest: Digest) -> Iterator[bytes] | None:
        self.moved.append("got")
        time.sleep(0.1)
        return self._pieces()

    def _pieces(self) -> Iterator[bytes]:
        yield self.content[:1]
        if self.fails:
            self.fails -= 1
            raise Unreachable("the server went away")
        yield self.content[1:]

    def put(self, kind: Kind, digest: Digest, path: Path) -> None:
        self.moved.append("put")

    def missing(self, digests: Iterable[Digest]) -> set[Digest]:
        found = set(digests)
        self.both.wait(timeout=20)
        return found


def held(tmp_path: Path) -> tuple[Held, SharedCache, Digest]:
    remote, store = Held(b"content"), Store(tmp_path / "store", print)
    cache = SharedCache(remote, store, print, writes=True, timeouts=Timeouts())
    return remote, cache, digest_of(b"content")


def test_a_blob_is_fetched_once_for_all_threads(tmp_path: Path) -> None:
    remote, cache, digest = held(tmp_path)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(cache.ensure_local, [digest] * 4))
    assert remote.moved == ["got"]


def test_a_missing_blob_is_uploaded_once_for_all_threads(tmp_path: Path) -> None:
    remote, cache, digest = held(tmp_path)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(cache.send, [{digest: tmp_path / "x"}] * 2))
    assert remote.moved == ["put"]


def test_a_download_is_retried_if_the_server_goes_away_in_the_middle(
    tmp_path: Path,
) -> None:
    remote, cache, digest = held(tmp_path)
    remote.fails = 1
    lost: list[str] = []
    patient = cache.with_retries(lambda: lost.append("lost"), lambda _: None)
    assert patient.ensure_local(digest)
    assert (lost, remote.moved) == (["lost"], ["got", "got"])


def test_a_shared_folder_keeps_its_permissions_whatever_the_umask(
    tmp_path: Path,
) -> None:
    root, content = tmp_path / "shared", tmp_path / "content"
    root.mkdir()
    root.chmod(0o2775)
    content.write_bytes(b"content")
    digest, before = digest_of(b"content"), os.umask(0o077)
    try:
        FolderBackend(root).put("cas", digest, content)
    finally:
        os.umask(before)
    kept = root / "cas" / digest.hash[:2]
    for folder in (root / "cas", kept, root / "incoming"):
        assert folder.stat().st_mode & 0o7777 == 0o2775
    assert [path.name for path in kept.iterdir()] == [digest.hash]


def test_old_incomplete_copies_are_removed(tmp_path: Path) -> None:
    root, content = tmp_path / "shared", tmp_path / "content"
    (root / "incoming").mkdir(parents=True)
    old, young = root / "incoming/old", root / "incoming/young"
    for path in (old, young, content):
        path.write_bytes(b"content")
    os.utime(old, (1, 1))
    FolderBackend(root).put("cas", digest_of(b"content"), content)
    assert list((root / "incoming").iterdir()) == [young]


def test_records_that_another_build_holds_are_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "records.sqlite"
    Records(place)
    inode = place.stat().st_ino
    held = sqlite3.OperationalError("locking protocol")
    held.sqlite_errorcode = 15  # SQLITE_PROTOCOL

    def refuse(_: object) -> dict[str, TaskRecord]:
        raise held

    monkeypatch.setattr(task_records, "_load", refuse)
    with pytest.raises(IngotError, match="locking protocol"):
        Records(place)
    assert place.stat().st_ino == inode
