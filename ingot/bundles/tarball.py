"""Write files as a tar with the same bytes everywhere, and read one back safely.

The format is USTAR, sorted, with time 0, owner 0 and mode 0644, so that nothing reveals
where or when it was written. A tar is read into one flat folder: members with a path
that leads out of it, links and devices are rejected before anything is written.

Source: reproducible-builds.org, "Archive metadata"; POSIX.1-1988 ustar.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, cast

from ingot.errors import IngotError

# The size field of a ustar header has 11 octal digits.
LARGEST_BYTES = 8**11 - 1

PIECE_BYTES = 1 << 20


def write_tar(
    to: BinaryIO,
    folder: str,
    files: Mapping[str, Path],
    expected: Mapping[str, tuple[str, int]],
) -> None:
    """Write a tar that contains the files, by name, in one folder.

    `expected` has sha256 and size of files, which are hashed while they are read.

    Raises: IngotError for a file that the format cannot represent, that cannot be read,
        or that is not as expected.
    """
    # As a stream: nothing of it is kept, and nothing is written twice.
    form = tarfile.USTAR_FORMAT
    with tarfile.open(
        fileobj=to, mode="w|", bufsize=PIECE_BYTES, format=form
    ) as archive:
        for name in sorted(files):
            try:
                with files[name].open("rb") as content:
                    found = _add(archive, f"{folder}/{name}", content)
            except OSError as error:
                raise IngotError(f"{name}: {error.strerror or error}") from error
            if name in expected:
                check_digest(name, expected[name], found)


def _add(archive: tarfile.TarFile, name: str, content: BinaryIO) -> tuple[str, int]:
    """Add a file to a tar; return its sha256 and size.

    Raises: IngotError if it is too large; OSError if it is shorter than its size.
    """
    # A new TarInfo has time 0, owner 0 without a name, and mode 0644.
    member = tarfile.TarInfo(name)
    member.size = os.fstat(content.fileno()).st_size
    if member.size > LARGEST_BYTES:
        raise IngotError(
            f"{name.partition('/')[2]}: too large for a ustar file; expected"
            f" {LARGEST_BYTES} bytes or less, found {member.size}"
        )
    reader = _HashingReader(content)
    archive.addfile(member, cast(BinaryIO, reader))
    return reader.hasher.hexdigest(), member.size


class _HashingReader:
    """Hashes what is read."""

    def __init__(self, content: BinaryIO) -> None:
        self.hasher = hashlib.sha256()
        self._content = content

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        piece = self._content.read(size)
        self.hasher.update(piece)
        return piece


def check_digest(name: str, expected: tuple[str, int], found: tuple[str, int]) -> None:
    """Reject a file whose sha256 and size differ from what `bundle.json` says.

    Raises: IngotError.
    """
    if found != expected:
        raise IngotError(
            f"{name}: changed since it was packed; "
            f"expected sha256 {expected[0]} ({expected[1]} bytes)"
            f", found {found[0]} ({found[1]} bytes)"
        )


def read_tar(path: Path, folder: Path) -> tuple[str, ...]:
    """Write the tar's files into an empty folder; return their names.

    Raises: IngotError for a corrupt tar, or one with anything but plain files in one
        folder.
    """
    try:
        with path.open("rb") as archive:
            members = list(_members(archive, path.stat().st_size))
            names = _check_members(path, [member for member, _ in members])
            for name, (member, offset) in zip(names, members, strict=True):
                archive.seek(offset)
                with (folder / name).open("xb") as file:
                    left = member.size
                    while left and (piece := archive.read(min(left, PIECE_BYTES))):
                        left -= file.write(piece)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise IngotError(f"{path.name}: not a complete tar; {error}") from error
    return names


def _members(
    archive: BinaryIO, size_bytes: int
) -> Iterator[tuple[tarfile.TarInfo, int]]:
    """Yield each member with the offset of its content, all of which is in the file.

    This function reads header by header, because tarfile supports extensions with which
    a short file can declare a long one, or repeat itself endlessly (CVE-2025-8194).

    Raises: TarError for a corrupt header; EOFError if content is missing.
    """
    offset = 0
    while header := archive.read(tarfile.BLOCKSIZE):
        if not header.strip(b"\0"):
            return
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        offset += tarfile.BLOCKSIZE
        yield member, offset
        if not 0 <= member.size <= size_bytes - offset:
            raise EOFError(f"'{member.name}' ends early")
        offset += -(-member.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        archive.seek(offset)


def file_digest(path: Path) -> tuple[str, int]:
    """Return a file's sha256 and its size in bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


def _check_members(path: Path, members: list[tarfile.TarInfo]) -> tuple[str, ...]:
    """Return the plain names of a tar's members.

    Raises: IngotError for a member that `write_tar` would not have written.
    """
    names: list[str] = []
    for member in members:
        parts = member.name.split("/")
        # Not `isreg`, which also accepts a sparse file: 1 kB can announce any size.
        if member.type != tarfile.REGTYPE:
            raise IngotError(f"{path.name}: '{member.name}' is not a plain file")
        if len(parts) != 2 or not all(map(_is_plain, parts)):
            raise IngotError(
                f"{path.name}: '{member.name}' is not a file in one folder",
                "expected <bundle>/<file>",
            )
        if member.name.split("/")[0] != members[0].name.split("/")[0]:
            raise IngotError(f"{path.name}: '{member.name}' is in a second folder")
        if parts[1] in names:
            raise IngotError(f"{path.name}: '{member.name}' occurs twice")
        names.append(parts[1])
    return tuple(names)


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and "\\" not in name and "\0" not in name
