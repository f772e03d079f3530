"""Remember which licences' terms the user has accepted.

`INGOT_ACCEPT=gemma,...` accepts terms for one command. An answer on a terminal is kept
in the user's configuration, with the digest of the text that was shown.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from ingot.errors import IngotError
from ingot.model.terms import Terms

VARIABLE = "INGOT_ACCEPT"
DECLINED = "declined"


def file() -> Path:
    """Return the file that has the answers."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder) / "ingot/terms.json"


def accepted() -> tuple[str, ...]:
    """Return the accepted terms: `NAME`, or `NAME:SHA256` for the text of that digest.

    Raises: IngotError if the file of answers cannot be read.
    """
    words = os.environ.get(VARIABLE, "").split(",")
    named = {word.strip() for word in words if word.strip()}
    kept = {f"{name}:{sha256}" for name, sha256 in _answers().items()}
    return tuple(sorted(named | kept))


def is_answered(terms: Terms) -> bool:
    """Return whether the user has accepted or declined this text of the terms."""
    answers = terms.sha256, f"{DECLINED} {terms.sha256}"
    return _answers().get(terms.name) in answers


def remember(terms: Terms, accepts: bool) -> None:
    """Keep the user's answer.

    Raises: IngotError if the file of answers cannot be read or written.
    """
    answer = terms.sha256 if accepts else f"{DECLINED} {terms.sha256}"
    answers = {**_answers(), terms.name: answer}
    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"{path.name}.{os.getpid()}")
        new.write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")
        os.replace(new, path)
    except OSError as error:
        hint = f"{VARIABLE}={terms.name} accepts the terms for one command"
        raise IngotError(f"{path}: cannot be written: {error}", hint) from error


def _answers() -> dict[str, str]:
    path = file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(value, str) for value in found.values()):
            return dict(found)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError):
        pass
    raise IngotError(f"{path}: cannot be read as accepted terms", f"rm {path}")
