"""Check licence expressions against SPDX's list and the texts in the checkout."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path

from ingot.errors import IngotError
from ingot.model.library import find
from ingot.model.name_patterns import LICENCE
from ingot.model.text_files import read_file, why

OWN = "LicenseRef-"

# Of texts, by the name of the licence.
FOLDER = "models/licences"

# Licences that are not in SPDX's list, and whether they let you give the weights to
# others. All that are in the list do.
REDISTRIBUTION = {
    f"{OWN}Gemma": True,
    f"{OWN}Llama-2": True,
    f"{OWN}Llama-3.1": True,
    f"{OWN}Llama-3.2": True,
    f"{OWN}Llama-3.3": True,
    f"{OWN}Qwen": True,
}


def allows_redistribution(expression: str) -> bool:
    """Return whether every licence of an expression is known to allow it."""
    return all(
        REDISTRIBUTION.get(name, not name.startswith(OWN))
        for name in licences(expression)
    )


def licences(expression: str) -> tuple[str, ...]:
    """Return the licences and exceptions of an SPDX expression, in its order."""
    words = expression.replace("(", " ").replace(")", " ").split()
    return tuple(dict.fromkeys(w for w in words if w not in ("AND", "OR", "WITH")))


def licence_errors(expression: str) -> Iterator[IngotError]:
    """Yield what is wrong with an expression, each unknown licence by itself.

    Source: SPDX specification 2.3, annex D; the list of the package `packaging`.
    """
    # Here: most commands read no manifest, and need not wait for the list.
    from packaging.licenses import (
        InvalidLicenseExpression,
        canonicalize_license_expression,
    )
    from packaging.licenses._spdx import EXCEPTIONS, LICENSES

    words = expression.replace("(", " ").replace(")", " ").split()
    unknown = False
    for before, word in zip(("", *words), words, strict=False):
        if word in ("AND", "OR", "WITH") or word.startswith(OWN):
            continue
        listed = EXCEPTIONS if before == "WITH" else LICENSES
        if word.removesuffix("+").lower() not in listed:
            unknown = True
            known = [x["id"] for x in listed.values() if not x["deprecated"]]
            near = _nearest(word, known)
            hint = f"one that is not in the list is {OWN}NAME"
            noun = "exception" if before == "WITH" else "licence"
            message = f"no {noun} '{word}' in SPDX's list"
            yield IngotError(message, f"did you mean '{near}'?" if near else hint)
    if unknown:
        return
    try:
        written = canonicalize_license_expression(expression)
    except InvalidLicenseExpression:
        yield IngotError(f"expected {LICENCE.what}, found '{expression}'")
        return
    if written != expression:
        yield IngotError(f"expected '{written}', found '{expression}'")


def _nearest(word: str, known: list[str]) -> str:
    """Return the known id that is most like the word; "" where none is.

    People leave out versions and signs: 'Apache', 'gpl3'.
    """
    plain = {re.sub("[^a-z0-9]", "", name.lower()): name for name in known}
    own = re.sub("[^a-z0-9]", "", word.lower())
    begun = [name for name in plain if name.startswith(own)] if own else []
    near = difflib.get_close_matches(own, begun or plain, 1, 0.0 if begun else 0.6)
    return plain[near[0]] if near else ""


def text_errors(expression: str, root: Path) -> Iterator[IngotError]:
    """Yield each licence of an expression whose text a bundle would lack."""
    for name in licences(expression):
        place = f"{FOLDER}/{name}.txt"
        hint = f"a bundle carries it: save it as {place}"
        try:
            text = str(read_file(find(root, place)), "utf-8")
        except FileNotFoundError:
            yield IngotError(f"no text of '{name}'", hint)
        except OSError as error:
            yield IngotError(f"{place}: {why(error)}", hint)
        except UnicodeDecodeError:
            yield IngotError(f"{place}: is not UTF-8", "save the file as UTF-8")
        else:
            if not text.strip():
                yield IngotError(f"{place}: the file is empty", hint)
