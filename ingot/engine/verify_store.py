"""A store in, every file of it read again and compared with its name; damage out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ingot.engine import results
from ingot.engine.digests import hash_file
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.store_survey import blob_path, survey


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read, and what was found to be damaged; that was removed."""

    results: int
    blobs: int
    size_bytes: int
    damaged: tuple[Path, ...]
    # Results of which a blob is missing: made again when they are asked for.
    incomplete: int
    unreadable: tuple[str, ...]  # which, and why; left as they are


def verify_store(root: Path) -> Verified:
    """Return what is left after the damaged files were removed.

    Nothing that is remembered of files is trusted: every byte is read.
    """
    found = survey(root)
    damaged, unreadable = [], []
    whole: set[str] = set()
    for name in found.blobs:
        path = blob_path(root, name)
        try:
            if hash_file(path).hash == name:
                whole.add(name)
            else:
                damaged.append(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            unreadable.append(f"{path}: {error.strerror}")
    for folder, _, names in os.walk(root / "ac"):
        for name in names:
            path = Path(folder, name)
            try:
                results.from_bytes(path.read_bytes())
            except CorruptMessage:
                damaged.append(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                unreadable.append(f"{path}: {error.strerror}")
    for path in damaged:
        path.unlink(missing_ok=True)
    wanted = [
        {*(digest.hash for _, digest in entry.result.outputs)}
        for entry in found.entries.values()
    ]
    return Verified(
        results=len(found.entries),
        blobs=len(whole),
        size_bytes=found.size_bytes,
        damaged=tuple(damaged),
        incomplete=sum(not names <= whole for names in wanted),
        unreadable=tuple(unreadable),
    )
