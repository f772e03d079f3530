"""Cache a value that was read from a checkout until its source files change.

The cache is JSON, which `codec` reads back by types: whoever can write a file below
`build/` must not be able to run code in `doit` with it.
"""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ingot import codec
from ingot.engine.actions import Action, SourceFile
from ingot.engine.atomic_files import remedy
from ingot.engine.digests import Identity, identify, is_settled
from ingot.engine.machine import cpu_features, machine
from ingot.errors import IngotError
from ingot.model.library import PACKAGE
from ingot.project.accepted_terms import accepted
from ingot.project.allowed_paths import allowed

SEAL_BYTES = 4

# The folders and files of a project that its plans are read from; the package is
# another one, unless the project is its checkout.
SOURCES = ("models", "targets", "components", "oracles", "ingot", "pyproject.toml")

T = TypeVar("T")


@dataclass(frozen=True)
class Cached:
    """A cached value, with the identities of the files that it was read from."""

    sources: str
    watched: tuple[tuple[str, Identity | None], ...]
    value: Any


def sources(root: Path) -> str:
    """Return a hash that differs if plans read from the checkout may differ.

    It covers the processor too: benchmarks are planned for it, and its features decide
    which target `host` is and which targets cannot run here. Installing a wheel may
    give a model an independent judge, and accepting terms may give it its own weights;
    what it may read outside of the project may change too.
    """
    wheels = _identity(sysconfig.get_path("purelib"))
    processor = (os.uname().machine, cpu_features(), *machine())
    here = (wheels, sys.prefix, sys.version, *processor, *accepted(), *allowed(root))
    return hashlib.sha256(repr((here, *_walk(root))).encode()).hexdigest()


def load(place: Path, decode: Callable[[Any], T], read_from: str) -> T | None:
    """Return the cached value; None if a file that it was read from has changed.

    `decode` turns parsed JSON into the value, or raises ValueError.
    """
    try:
        sealed = place.read_bytes()
        content = sealed[SEAL_BYTES:]
        if sealed[:SEAL_BYTES] != seal(content):
            return None
        cached = codec.from_json(Cached, content)
        if cached.sources != read_from or any(
            _identity(path) != identity for path, identity in cached.watched
        ):
            return None
        return decode(cached.value)
    except (OSError, ValueError, RecursionError):
        # A corrupt file, or one of another version, is a cache miss.
        return None


def save(
    place: Path,
    value: object,
    read_from: str,
    asked_ns: int,
    watched: Iterable[Path] = (),
) -> None:
    """Cache the value until its sources, or a file or folder in `watched`, change.

    Nothing is cached if one of those changed after `asked_ns`, when reading began,
    because the value may be from before or after the change.

    Raises: IngotError if the file cannot be written.
    """
    named = sorted(str(path) for path in set(watched))
    identities = tuple((path, _identity(path)) for path in named)
    if not all(is_settled(item, asked_ns) for _, item in identities if item):
        return
    content = codec.to_json(Cached(read_from, identities, value)).encode()
    temporary = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(seal(content) + content)
        os.replace(temporary, place)
    except OSError as error:
        raise IngotError(
            f"{place}: cannot be written: {error.strerror}",
            remedy(error, "in the build folder"),
        ) from error


def watched_paths(root: Path, actions: Iterable[Action]) -> set[Path]:
    """Return the folders outside the sources that contain inputs of the actions.

    A folder changes if a file is added or removed. The index of shards in such a folder
    is included too, because planning reads it and people may edit it in place.
    """
    from ingot.weights.shards import INDEX

    folders = {
        source.path.parent
        for action in actions
        for _, source in action.inputs
        if isinstance(source, SourceFile)
    }
    own = [PACKAGE, *(root / name for name in SOURCES)]
    others = {
        folder
        for folder in folders
        if ".." in folder.parts or not any(map(folder.is_relative_to, own))
    }
    return others | {folder / INDEX for folder in others}


def seal(content: bytes) -> bytes:
    """Return a checksum: without it, a flipped bit could change a compiler flag."""
    return zlib.crc32(content).to_bytes(SEAL_BYTES, "big")


def _identity(path: str) -> Identity | None:
    """Return the file's identity; None for a missing file or a dangling link."""
    try:
        return identify(os.stat(path))
    except OSError:
        return None


def _walk(root: Path) -> Iterator[tuple[str, Identity | None]]:
    """Yield every file below the sources, in a fixed order, with its identity.

    Hidden files are skipped, because editors store locks and unsaved text in them.
    """
    folders = dict.fromkeys((str(PACKAGE), *(f"{root}/{x}" for x in SOURCES)))
    pending = list(reversed(folders))
    while pending:
        path = pending.pop()
        if os.path.isdir(path):
            names = sorted(
                name
                for name in os.listdir(path)
                if name != "__pycache__" and not name.startswith(".")
            )
            pending.extend(os.path.join(path, name) for name in reversed(names))
        else:
            yield path, _identity(path)
