"""What a checkpoint says of its licence in, the manifest's SPDX expression out.

A bundle carries the licence's text: one that the project has no text of is a question.
"""

from __future__ import annotations

from pathlib import Path

from ingot.bundles.declaration import licences
from ingot.errors import IngotError
from ingot.imports.values import Said
from ingot.readers.licence import licence_defects

FOLDER = "models/licences"


def choose_licence(
    given: str | None, said: Said | None, root: Path, errors: list[IngotError]
) -> Said | None:
    """Return the licence that the command line gives, or the checkpoint says."""
    if given is not None:
        return _given(given, root, errors)
    known = {path.stem.lower(): path.stem for path in (root / FOLDER).glob("*.txt")}
    if said is not None and str(said.value).lower() in known:
        return Said(known[str(said.value).lower()], said.place)
    found = f"{said.place} is '{said.value}'" if said else "it names none"
    texts = ", ".join(sorted(known.values())) or "none"
    errors.append(
        IngotError(
            f"under which licence is the checkpoint? {found}",
            f"say it: licence=SPDX-ID, with its text as {FOLDER}/<SPDX-ID>.txt; texts"
            f" there: {texts}",
        )
    )
    return None


def _given(given: str, root: Path, errors: list[IngotError]) -> Said | None:
    if wrong := list(licence_defects(given)):
        errors += [IngotError(f"licence={given}: {e.message}", e.hint) for e in wrong]
        return None
    missing = [
        name
        for name in licences(given)
        if not (root / FOLDER / f"{name}.txt").is_file()
    ]
    for name in missing:
        errors.append(
            IngotError(
                f"licence={given}: no text of '{name}'",
                f"a bundle carries it: save it as {FOLDER}/{name}.txt",
            )
        )
    return None if missing else Said(given, "licence=")
