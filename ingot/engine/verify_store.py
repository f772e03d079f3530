"""Read every file of a store again and delete those that are corrupt."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ingot.engine.action_results import belongs_to, decode_result
from ingot.engine.digests import hash_file
from ingot.engine.protobuf_wire import CorruptMessage
from ingot.engine.store_survey import blob_path, survey


@dataclass(frozen=True, slots=True)
class Verified:
    """What was read, and which files were corrupt and deleted."""

    results: int
    blobs: int
    size_bytes: int
    corrupt: tuple[Path, ...]
    # Results that lack a blob: they are rebuilt when they are needed.
    incomplete: int
    unreadable: tuple[str, ...]  # which, and why; they were not deleted


def verify_store(root: Path) -> Verified:
    """Delete the corrupt files; return what was read.

    Nothing remembered about files is trusted: every byte is read.
    """
    found = survey(root)
    corrupt, unreadable = [], []
    whole: set[str] = set()
    for name in found.blobs:
        path = blob_path(root, name)
        try:
            if hash_file(path).hash == name:
                whole.add(name)
            else:
                corrupt.append(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            unreadable.append(f"{path}: {error.strerror}")
    for folder, _, names in os.walk(root / "ac"):
        for name in names:
            path = Path(folder, name)
            try:
                result = decode_result(path.read_bytes())
                # Results of other programs carry no messages; hints have no outputs.
                is_ours = result.outputs and result.messages
                if is_ours and not belongs_to(name, result):
                    corrupt.append(path)
            except CorruptMessage:
                corrupt.append(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                unreadable.append(f"{path}: {error.strerror}")
    for path in corrupt:
        path.unlink(missing_ok=True)
    wanted = [
        {*(digest.hash for _, digest in entry.result.outputs)}
        for entry in found.entries.values()
    ]
    return Verified(
        results=len(found.entries),
        blobs=len(whole),
        size_bytes=found.size_bytes,
        corrupt=tuple(corrupt),
        incomplete=sum(not names <= whole for names in wanted),
        unreadable=tuple(unreadable),
    )
