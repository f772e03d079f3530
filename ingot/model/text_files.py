"""Read the files of a project, and reject pipes and devices before they are opened.

Reading a named pipe would wait for its writer, and a device may have no end.
"""

from __future__ import annotations

import os
import stat
from errno import EFBIG, EINVAL
from pathlib import Path

from ingot.errors import ManifestError, Position

_KINDS = {
    stat.S_IFIFO: "is a named pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}


# The largest file that people write here has 16 kB; some patterns take time that grows
# with the square of a line's length.
TEXT_BYTES = 1 << 18


def read_file(path: Path, most_bytes: int = TEXT_BYTES) -> bytes:
    """Return the content of a file.

    Raises: OSError where there is none, or a larger one; its text says what is there.
    """
    about = os.stat(path)
    found = _KINDS.get(stat.S_IFMT(about.st_mode))
    if found is not None:
        raise OSError(EINVAL, found, str(path))
    if about.st_size > most_bytes:
        size = f"{about.st_size} bytes are more than {most_bytes}"
        raise OSError(EFBIG, f"it is too large: {size}", str(path))
    return path.read_bytes()


def why(error: OSError) -> str:
    """Return why a file cannot be read, for a message."""
    reason = (error.strerror or str(error)).lower()
    return f"cannot be read: {reason}"


def read_text(path: Path, shown: str) -> str:
    """Return the text of a file that errors call `shown`.

    Raises: ManifestError where it cannot be read, or is not UTF-8.
    """
    try:
        content = read_file(path)
    except OSError as error:
        raise ManifestError(Position(shown, 1, 1), "", why(error)) from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        before, byte = content[: error.start].decode("utf-8"), content[error.start]
        place, hint = behind(shown, before), "save the file as UTF-8"
        message = f"byte 0x{byte:02x} is not UTF-8"
        raise ManifestError(place, "", message, hint) from None


def behind(path: str, before: str) -> Position:
    """Return the position behind the given text."""
    line = before.count("\n") + 1
    return Position(path, line, len(before) - (before.rfind("\n") + 1) + 1)
