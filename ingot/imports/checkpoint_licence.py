"""Choose the manifest's SPDX expression for the licence that a checkpoint states.

A bundle ships the licence's text, so the user must choose if the project does not have
it.
"""

from __future__ import annotations

from pathlib import Path

from ingot.errors import IngotError
from ingot.imports.checkpoint_facts import Stated
from ingot.model.library import names
from ingot.model.licence import FOLDER, licence_errors, text_errors


def choose_licence(
    given: str | None, stated: Stated | None, root: Path, errors: list[IngotError]
) -> Stated | None:
    """Return the licence from the command line or the checkpoint."""
    if given is not None:
        return _given(given, root, errors)
    found_texts = (Path(name).stem for name in names(root, f"{FOLDER}/*.txt"))
    known = {name.lower(): name for name in found_texts}
    if stated is not None and str(stated.value).lower() in known:
        return Stated(known[str(stated.value).lower()], stated.origin)
    found = f"{stated.origin} is '{stated.value}'" if stated else "it states none"
    texts = ", ".join(sorted(known.values())) or "none"
    errors.append(
        IngotError(
            f"the licence of the checkpoint is unknown: {found}",
            f"set licence=SPDX-ID, with its text in {FOLDER}/<SPDX-ID>.txt; texts"
            f" there: {texts}",
        )
    )
    return None


def _given(given: str, root: Path, errors: list[IngotError]) -> Stated | None:
    wrong = list(licence_errors(given)) or list(text_errors(given, root))
    errors += [IngotError(f"licence={given}: {e.message}", e.hint) for e in wrong]
    return None if wrong else Stated(given, "licence=")
