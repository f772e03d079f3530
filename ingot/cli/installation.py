"""Find the project that a command is about, and check that this ingot may build it.

The Python code of ingot is part of what it builds. Code of another checkout, or half of
it from another distribution, would build something else than the user reads.
"""

from __future__ import annotations

import os
from pathlib import Path

import ingot
from ingot.errors import IngotError
from ingot.model.library import LIBRARY, PACKAGE

DODO = "dodo.py"


def project_root(folder: Path) -> Path | None:
    """Return the nearest folder with a dodo.py, here or above; None without one."""
    around = (folder, *folder.parents)
    return next((place for place in around if (place / DODO).is_file()), None)


def check_installation(root: Path) -> None:
    """Check that the imported ingot is whole, and the one for this project.

    Raises: IngotError if it is not.
    """
    _check_package()
    own = root / "ingot"
    if os.path.lexists(own / "__init__.py") and not own.samefile(PACKAGE):
        if (own / "cli/main.py").is_file():
            raise IngotError(
                f"this folder is a checkout of ingot, and the code that runs is of"
                f" another one: {PACKAGE}",
                "use this checkout's environment, as `./bootstrap COMMAND` does",
            )
        raise _hidden("ingot/")
    if os.path.lexists(root / "ingot.py"):
        raise _hidden("ingot.py")
    # Such a project has models and, without those of a package, no targets.
    relies = (root / "models").is_dir() and not (root / "targets").is_dir()
    if relies and not LIBRARY.is_dir():
        raise IngotError(
            f"ingot is installed from the checkout {PACKAGE.parent} as editable, and"
            " brings no targets and components then",
            f"install it as a package: pip install {PACKAGE.parent}",
        )


def _check_package() -> None:
    """Check that all files of the package are of one distribution.

    Raises: IngotError if another one has overwritten some.
    """
    name = getattr(ingot, "DISTRIBUTION", "")
    again = "pip uninstall ingot; pip install --force-reinstall ingot-build"
    if not name:
        text = f"{ingot.__file__}: belongs to another distribution than {PACKAGE}"
        raise IngotError(text, again)
    stem = name.replace("-", "_")
    infos = sorted(path.name for path in PACKAGE.parent.glob(f"{stem}-*.dist-info"))
    if len(infos) > 1:
        text = f"{PACKAGE.parent}: two versions of {name}: {', '.join(infos)}"
        raise IngotError(text, again)


def _hidden(name: str) -> IngotError:
    return IngotError(
        f"{name}: a module of this name hides the package ingot from Python code of"
        " this project",
        "give it another name",
    )
