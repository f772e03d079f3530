"""Install packages into other environments as links to those of the tests' own."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def required(name: str, found: dict[str, None]) -> dict[str, None]:
    """Return a package and all that it requires, each once."""
    name = canonicalize_name(name)
    if name not in found:
        found[name] = None
        for line in distribution(name).requires or ():
            item = Requirement(line)
            if item.marker is None or item.marker.evaluate({"extra": ""}):
                required(item.name, found)
    return found


def link(name: str, site: Path) -> None:
    """Install a package as links to the files of the test environment."""
    installed = distribution(name)
    for file in installed.files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        source, place = Path(str(installed.locate_file(file))), site / file
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, place)
        except OSError:
            # The environment is on another disk.
            shutil.copy(source, place)
