"""Files in, one tar with the same bytes everywhere out; and back, safely.

USTAR, sorted, time 0, owner 0, mode 0644: nothing tells where or when it was made. What
comes back from a tar goes into one flat folder: members with a path that leads out,
links and devices are refused before anything is written.

Source: reproducible-builds.org, "Archive metadata"; POSIX.1-1988 ustar.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path

from ingot.errors import IngotError

# The size field of a ustar header has 11 octal digits.
LARGEST_BYTES = 8**11 - 1


def write_tar(path: Path, folder: str, files: Mapping[str, Path]) -> None:
    """Write a tar that holds the files, by name, in one folder.

    Raises: IngotError for a file that the format cannot hold.
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

    Raises: IngotError for a tar that is damaged, or has anything but plain files in one
    folder.
    """
    try:
        with tarfile.open(path, "r:") as archive:
            members = archive.getmembers()
            names = _refuse_strange(path, members)
            for name, member in zip(names, members, strict=True):
                content = archive.extractfile(member)
                assert content is not None
                with content, (folder / name).open("xb") as file:
                    shutil.copyfileobj(content, file)
                if (folder / name).stat().st_size != member.size:
                    raise IngotError(f"{path.name}: {name} ends early")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise IngotError(f"{path.name}: not a whole tar; {error}") from error
    return names


def file_digest(path: Path) -> tuple[str, int]:
    """Return a file's sha256 and its size in bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), path.stat().st_size


def _refuse_strange(path: Path, members: list[tarfile.TarInfo]) -> tuple[str, ...]:
    """Return the plain names of a tar's members.

    Raises: IngotError for a member that `write_tar` would not have written.
    """
    names: list[str] = []
    for member in members:
        parts = member.name.split("/")
        if not member.isreg():
            raise IngotError(f"{path.name}: '{member.name}' is not a plain file")
        if len(parts) != 2 or not all(map(_is_plain, parts)):
            raise IngotError(
                f"{path.name}: '{member.name}' is no file of one folder",
                "expected <bundle>/<file>",
            )
        if member.name.split("/")[0] != members[0].name.split("/")[0]:
            raise IngotError(f"{path.name}: '{member.name}' is in a second folder")
        if parts[1] in names:
            raise IngotError(f"{path.name}: '{member.name}' is there twice")
        names.append(parts[1])
    return tuple(names)


def _is_plain(name: str) -> bool:
    return name not in ("", ".", "..") and "\\" not in name and "\0" not in name
