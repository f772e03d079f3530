"""Write files as a tar with the same bytes everywhere, and read one back safely.

The format is USTAR, sorted, with time 0, owner 0 and mode 0644, so that nothing reveals
where or when it was written. A tar is read into one flat folder: members with a path
that leads out of it, links and devices are rejected before anything is written.

Source: reproducible-builds.org, "Archive metadata"; POSIX.1-1988 ustar.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from ingot.errors import IngotError

# The size field of a ustar header has 11 octal digits.
LARGEST_BYTES = 8**11 - 1

PIECE_BYTES = 1 << 20


def write_tar(path: Path, folder: str, files: Mapping[str, Path]) -> None:
    """Write a tar that contains the files, by name, in one folder.

    Raises: IngotError for a file that the format cannot represent.
    """
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            size_bytes = files[name].stat().st_size
            if size_bytes > LARGEST_BYTES:
                raise IngotError(
                    f"{name}: too large for a ustar file; expected {LARGEST_BYTES} "
                    f"bytes or less, found {size_bytes}"
                )
            # A new TarInfo has time 0, owner 0 without a name, and mode 0644.
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = size_bytes
            with files[name].open("rb") as content:
                archive.addfile(member, content)


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
