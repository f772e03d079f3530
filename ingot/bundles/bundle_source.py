"""Find the bundle that a word names: a folder, a tar, or MODEL@TARGET as built."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ingot.bundles.reader import Bundle, read_bundle
from ingot.bundles.tarball import read_tar
from ingot.errors import IngotError


@contextlib.contextmanager
def opened(word: str, root: Path) -> Iterator[Bundle]:
    """Yield the bundle; every file of it is as it was packed.

    Raises: IngotError if there is none, or if it is not complete.
    """
    path = Path(word).expanduser()
    model, at, target = word.partition("@")
    built = root / "build" / model / target / "bundle"
    if at and not path.exists() and built.is_dir():
        path = built
    if path.is_dir():
        yield read_bundle(path.absolute())
    elif path.is_file():
        with tempfile.TemporaryDirectory(prefix="bundle-") as name:
            folder = Path(name) / path.name
            folder.mkdir()
            read_tar(path, folder)
            yield read_bundle(folder)
    else:
        raise IngotError(
            f"{word}: no such bundle",
            "a bundle is a folder, a tar, or MODEL@TARGET, which `doit build` makes",
        )
