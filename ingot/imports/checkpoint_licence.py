"""Choose the manifest's SPDX expression for the licence that a checkpoint states.

A bundle ships the licence's text, so the user must choose if the project does not have
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Stated
from ingot.model.library import names
from ingot.model.licence import FOLDER, OWN, licence_errors, text_errors

# What checkpoints call licences that are not in SPDX's list.
HUB_NAMES = {
    "gemma": "LicenseRef-Gemma",
    "llama2": "LicenseRef-Llama-2",
    "llama3.1": "LicenseRef-Llama-3.1",
    "llama3.2": "LicenseRef-Llama-3.2",
    "llama3.3": "LicenseRef-Llama-3.3",
    "qwen": "LicenseRef-Qwen",
}


OWN_FILES = ("LICENSE", "LICENCE", "LICENSE.txt", "LICENSE.md", "LICENCE.txt")


@dataclass(frozen=True, slots=True)
class OwnText:
    """The text of a licence beside a checkpoint, which the project does not have."""

    name: str  # "LicenseRef-MODEL"
    origin: str  # the file's name
    text: str

    def write(self, root: Path) -> Path | None:
        """Add it to the project's texts; return its path, None if it is there.

        Raises: IngotError if it cannot be written, or another text has its name.
        """
        name = f"{FOLDER}/{self.name}.txt"
        try:
            if (root / name).exists():
                if (root / name).read_text(encoding="utf-8") == self.text:
                    return None
                hint = "choose another name with model=NAME, or remove the file"
                message = f"{name}: already exists, with another text"
                raise IngotError(message, hint)
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(self.text, encoding="utf-8")
        except OSError as error:
            message = f"{name}: cannot be written: {error.strerror}"
            raise IngotError(message) from error
        return root / name


def own_text(checkpoint: Path, model: str) -> OwnText | None:
    """Return the text of a licence in the checkpoint's folder, if there is one."""
    folder = checkpoint if checkpoint.is_dir() else checkpoint.parent
    for name in OWN_FILES:
        try:
            text = (folder / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if text.strip():
            return OwnText(f"{OWN}{model}", name, text)
    return None


def choose_licence(
    given: str | None,
    stated: Stated | None,
    own: OwnText | None,
    root: Path,
    errors: list[IngotError],
) -> Stated | None:
    """Return the licence from the command line or the checkpoint.

    Where the project does not have the text of the one that is stated, it is the text
    beside the checkpoint.
    """
    if given is not None:
        return _given(given, root, errors)
    texts = {Path(name).stem for name in names(root, f"{FOLDER}/*.txt")}
    known = {name.lower(): name for name in texts}
    known |= {name: text for name, text in HUB_NAMES.items() if text in texts}
    if stated is not None and str(stated.value).lower() in known:
        return Stated(known[str(stated.value).lower()], stated.origin)
    if own is not None:
        return Stated(own.name, own.origin)
    found = f"{stated.origin} is '{stated.value}'" if stated else "it states none"
    listed = ", ".join(sorted(texts)) or "none"
    errors.append(
        IngotError(
            f"the licence of the checkpoint is unknown: {found}",
            f"set licence=SPDX-ID, with its text in {FOLDER}/<SPDX-ID>.txt; texts"
            f" there: {listed}",
        )
    )
    return None


def _given(given: str, root: Path, errors: list[IngotError]) -> Stated | None:
    wrong = list(licence_errors(given)) or list(text_errors(given, root))
    errors += [IngotError(f"licence={given}: {e.message}", e.hint) for e in wrong]
    return None if wrong else Stated(given, "licence=")
