"""A value read from a checkout, kept until a file that it was read from changes."""

from __future__ import annotations

import os
import pickle
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from ingot.edges.digests import Identity, identify
from ingot.edges.machine import machine
from ingot.errors import IngotError
from ingot.readers.processor import features

SEAL_BYTES = 4

# Folders and files of a checkout that its plans are read from.
SOURCES = ("models", "targets", "components", "ingot", "pyproject.toml")

Identities = tuple[object, ...]
T = TypeVar("T")


def sources(root: Path) -> Identities:
    """Return what changes when anything read from the checkout might be another.

    Benchmarks are planned for this machine's processor, `host` and what cannot run here
    by its features: a machine of the same name may be given others.
    """
    here = (sys.prefix, sys.version, os.uname().machine, features(), *machine())
    return (here, tuple(_walk(root)))


def load(place: Path, kind: type[T], read_from: Identities) -> T | None:
    """Return the value kept at a place; None where what it was read from differs."""
    try:
        sealed = place.read_bytes()
        content = sealed[SEAL_BYTES:]
        if sealed[:SEAL_BYTES] != seal(content):
            return None
        identities, folders, value = pickle.loads(content)
        if identities == (read_from, _identities(folders)):
            assert isinstance(value, kind)
            return value
    except Exception:
        # A damaged file, or one of another version, is as good as none.
        return None
    return None


def save(
    place: Path, value: object, read_from: Identities, folders: Iterable[Path] = ()
) -> None:
    """Keep the value until its sources differ, or a file comes to or leaves a folder.

    Raises: IngotError where the place cannot be written.
    """
    named = sorted(str(path) for path in set(folders))
    content = pickle.dumps(((read_from, _identities(named)), named, value))
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(seal(content) + content)
        os.replace(temporary, place)
    except OSError as error:
        raise IngotError(
            f"{place}: cannot be written: {error.strerror}",
            "make room or permission in the build folder",
        ) from error


def seal(content: bytes) -> bytes:
    """Return a checksum: a flipped bit must not pass for another flag."""
    return zlib.crc32(content).to_bytes(SEAL_BYTES, "big")


def _identities(folders: Iterable[str]) -> tuple[Identity, ...]:
    return tuple(identify(os.stat(path)) for path in folders)


def _walk(root: Path) -> Iterator[tuple[str, Identity]]:
    """Yield every file below the sources, in a fixed order, with its identity."""
    pending = [str(root / name) for name in reversed(SOURCES)]
    while pending:
        path = pending.pop()
        if os.path.isdir(path):
            names = sorted(n for n in os.listdir(path) if n != "__pycache__")
            pending.extend(os.path.join(path, name) for name in reversed(names))
        else:
            yield path, identify(os.stat(path))
