"""Find the files of a project: in its own folder, or among those that ingot brings.

A wheel of ingot brings components, oracles, architectures, targets, layouts and
licences, under the names that they have in a project: `components/linear/linear.mlir`.
Plans, keys and messages contain these names only, so that a result does not depend on
where ingot is installed. A checkout of ingot brings nothing: the files are its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from ingot.errors import IngotError, did_you_mean

PACKAGE = Path(__file__).parents[1]
LIBRARY = PACKAGE / "library"

# Holds no oracle: only tells Python that its folder is a package.
_SHARED = "oracles/__init__.py"


def find(root: Path, name: str) -> Path:
    """Return the path of a file: of the project, or else of the library.

    If neither has it, that is where the project would have it.
    """
    own = root / name
    if os.path.lexists(own):
        return own
    brought = LIBRARY / name
    return brought if os.path.lexists(brought) else own


def names(root: Path, pattern: str) -> list[str]:
    """Return the names of all files that match a pattern, sorted, without hidden ones.

    `pattern` is a glob, such as "targets/*.yaml".
    """
    return sorted(
        {
            path.relative_to(folder).as_posix()
            for folder in (root, LIBRARY)
            for path in folder.glob(pattern)
            if not path.name.startswith(".")
        }
    )


def name_of(path: Path, root: Path) -> str:
    """Return the name of a file of the project or the library; of others, the path."""
    # The library first: its environment may be in the project's folder.
    for folder in (LIBRARY, root):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.as_posix()


def place_oracles(root: Path) -> None:
    """Make `import oracles.NAME` find those of the project and those of the library.

    In a checkout it does so anyway, and actions have both in one folder.
    """
    if LIBRARY.is_dir():
        package = ModuleType("oracles")
        package.__path__ = [str(folder / "oracles") for folder in (root, LIBRARY)]
        sys.modules["oracles"] = package


def check_names(root: Path, overrides: tuple[str, ...]) -> None:
    """Check that the project and the library have different files.

    `overrides` are the names that the project has in place of the library's.

    Raises: IngotError for each file that both have, and for each override that is none.
    """
    brought = list(_library())
    both = [name for name in brought if os.path.lexists(root / name)]
    errors = [
        IngotError(
            f"{name}: this project and ingot both have a file of this name",
            "rename the project's; or choose it, in pyproject.toml: [tool.ingot]"
            f' overrides = ["{name}"]',
        )
        for name in both
        if name not in overrides
    ]
    key = "pyproject.toml: tool.ingot.overrides"
    for name in overrides:
        if name not in brought:
            text = f"{key}: ingot has no file '{name}'"
            errors.append(IngotError(text, did_you_mean(name, brought, "files")))
        elif name not in both:
            text = f"{key}: the project has no file '{name}'"
            errors.append(IngotError(text, "remove it from the list"))
    if errors:
        raise IngotError("\n".join(map(str, errors)))


def _library() -> Iterator[str]:
    """Yield the names of the files that ingot brings, sorted."""
    for path in sorted(LIBRARY.glob("**/*")):
        name = path.relative_to(LIBRARY).as_posix()
        if path.is_file() and "__pycache__" not in path.parts and name != _SHARED:
            yield name
