"""Remember what manifests may read outside of their project.

`INGOT_ALLOW_OUTSIDE=FOLDER:...` allows it for one command. What `doit import` is given
is allowed from then on, to this project only: it is kept in the user's configuration. A
setting of the project could not say so, because it comes with the manifests.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ingot.errors import IngotError
from ingot.model.manifest_folder import VARIABLE


def file() -> Path:
    """Return the file that has what each project may read."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "ingot/allowed-paths.json"


def allowed(root: Path) -> tuple[Path, ...]:
    """Return the folders and files that manifests of the project may read.

    Raises: IngotError if the user's file cannot be read.
    """
    words = os.environ.get(VARIABLE, "").split(os.pathsep)
    named = [Path(word).expanduser().absolute() for word in words if word]
    kept = map(Path, _kept().get(str(root.absolute()), ()))
    return (root.absolute(), *sorted({*named, *kept}))


def allow(root: Path, source: Path) -> None:
    """Let manifests of the project read the source from now on: a file or a folder.

    Raises: IngotError if the user's file cannot be read or written.
    """
    # The files of a download cache are links out of their folder.
    links = [path for path in source.glob("*") if path.is_symlink()]
    new = {source.absolute(), source.resolve(), *(path.resolve() for path in links)}
    if all(path.resolve().is_relative_to(root.resolve()) for path in new):
        return
    kept = _kept()
    before = kept.get(str(root.absolute()), ())
    kept[str(root.absolute())] = sorted({*before, *map(str, new)})
    place = file()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f"{place.name}.{os.getpid()}")
        temporary.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        os.replace(temporary, place)
    except OSError as error:
        raise IngotError(
            f"{place}: cannot be written: {error.strerror}",
            f"{VARIABLE}={source} lets a command read the checkpoint",
        ) from error


def _kept() -> dict[str, list[str]]:
    path = file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if all(
            isinstance(paths, list) and all(isinstance(item, str) for item in paths)
            for paths in found.values()
        ):
            return dict(found)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, AttributeError):
        pass
    raise IngotError(f"{path}: cannot be read as allowed paths", f"rm {path}")
