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

# What checkpoints call licences that are not in SPDX's list.
HUB_NAMES = {
    "gemma": "LicenseRef-Gemma",
    "llama2": "LicenseRef-Llama-2",
    "llama3.1": "LicenseRef-Llama-3.1",
    "llama3.2": "LicenseRef-Llama-3.2",
    "llama3.3": "LicenseRef-Llama-3.3",
    "qwen": "LicenseRef-Qwen",
}


def choose_licence(
    given: str | None, stated: Stated | None, root: Path, errors: list[IngotError]
) -> Stated | None:
    """Return the licence from the command line or the checkpoint."""
    if given is not None:
        return _given(given, root, errors)
    texts = {Path(name).stem for name in names(root, f"{FOLDER}/*.txt")}
    known = {name.lower(): name for name in texts}
    known |= {name: text for name, text in HUB_NAMES.items() if text in texts}
    if stated is not None and str(stated.value).lower() in known:
        return Stated(known[str(stated.value).lower()], stated.origin)
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
