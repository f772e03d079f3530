from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from ingot.bundles.tarball import file_digest, read_tar, write_tar
from ingot.errors import IngotError


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    item = tarfile.TarInfo(name)
    item.type = kind
    item.linkname = "/etc/passwd"
    return item


@pytest.mark.parametrize(
    ("strange", "message"),
    [
        (member("b/../../x"), "is not a file in one folder"),
        (member("/etc/x"), "is not a file in one folder"),
        (member("x"), "is not a file in one folder"),
        (member("b/.."), "is not a file in one folder"),
        (member("b/c/d"), "is not a file in one folder"),
        (member("b\\c/d"), "is not a file in one folder"),
        (member("other/x"), "is in a second folder"),
        (member("b/good"), "occurs twice"),
        (member("b/link", tarfile.SYMTYPE), "is not a plain file"),
        (member("b/hard", tarfile.LNKTYPE), "is not a plain file"),
        (member("b/dev", tarfile.CHRTYPE), "is not a plain file"),
        (member("b/fifo", tarfile.FIFOTYPE), "is not a plain file"),
        (member("b", tarfile.DIRTYPE), "is not a plain file"),
        (member("b/sparse", tarfile.GNUTYPE_SPARSE), "is not a plain file"),
        (member("b/extended", tarfile.XHDTYPE), "is not a plain file"),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else "",
)
def test_a_tar_that_leads_elsewhere_writes_nothing(
    tmp_path: Path, strange: tarfile.TarInfo, message: str
) -> None:
    path = tmp_path / "strange.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(member("b/good"), io.BytesIO())
        archive.addfile(strange)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(IngotError, match=message):
        read_tar(path, folder)
    assert list(folder.iterdir()) == []


def test_a_compressed_tar_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w:gz") as archive:
        archive.addfile(member("b/good"), io.BytesIO())
    (tmp_path / "out").mkdir()
    with pytest.raises(IngotError, match="not a complete tar"):
        read_tar(tmp_path / "x.tar", tmp_path / "out")


@pytest.mark.parametrize("size", [513, 1 << 40, -512])
def test_a_member_is_no_larger_than_its_tar(tmp_path: Path, size: int) -> None:
    item = member("b/x")
    item.size = size
    header = item.tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "x.tar").write_bytes(header + bytes(512))
    (tmp_path / "out").mkdir()
    with pytest.raises(IngotError, match=r"not a complete tar; 'b/x' ends early"):
        read_tar(tmp_path / "x.tar", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1" * 513)
    (tmp_path / "b").write_bytes(b"")
    files = {name: tmp_path / name for name in ("b", "a")}
    with (tmp_path / "x.tar").open("wb") as to:
        write_tar(to, "top", files, {"a": file_digest(tmp_path / "a")})
    (tmp_path / "out").mkdir()
    assert read_tar(tmp_path / "x.tar", tmp_path / "out") == ("a", "b")
    assert (tmp_path / "out/a").read_bytes() == b"1" * 513
