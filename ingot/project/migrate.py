"""Rewrite the YAML files of a project that use renamed keys, values or names.

Only the renamed words change: comments, quotes and the order of lines stay.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from ingot.errors import IngotError, ManifestError
from ingot.model.library import name_of
from ingot.model.renamed import Change, changes
from ingot.model.text_files import read_text
from ingot.model.yaml_nodes import collected, parse, raise_all

FOLDERS = ("models", "targets")

# What YAML 1.1 takes for the end of a line.
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file with old words, and its text without them."""

    path: Path
    changes: tuple[Change, ...]
    text: str


def yaml_files(root: Path) -> list[Path]:
    """Return the YAML files of a project, without hidden files of editors."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (root / folder).rglob("*.yaml")
        if not path.name.startswith(".")
    )


def read(paths: list[Path], root: Path) -> list[Rewritten]:
    """Return the files that use old words.

    Raises:
        ExceptionGroup: of ManifestError, every file that is not YAML.
    """
    found: list[Rewritten] = []
    errors: list[ManifestError] = []
    for path in paths:
        with collected(errors):
            shown = name_of(path, root)
            try:
                text = read_text(path, shown)
                olds = tuple(changes(parse(text, shown), root))
                if olds:
                    found.append(Rewritten(path, olds, rewritten(text, olds)))
            except ManifestError as error:
                errors.append(error)
    raise_all(errors)
    return found


def rewritten(text: str, olds: tuple[Change, ...]) -> str:
    """Return the text with the new words.

    Raises: ManifestError for a word that is spelt with escapes, or over several lines.
    """
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    parts, end = [], 0
    for change in olds:
        start = starts[change.position.line - 1] + change.position.column - 1
        spellings = (change.old, f'"{change.old}"', f"'{change.old}'")
        spelt = next((item for item in spellings if text.startswith(item, start)), "")
        if not spelt:
            message = f"'{change.old}' was renamed to '{change.new}'"
            hint = "its spelling is unusual: rewrite it by hand"
            raise ManifestError(change.position, "", message, hint)
        quote = spelt[: (len(spelt) - len(change.old)) // 2]
        # A number in quotes would be text.
        quote = "" if change.new.lstrip("-").isdigit() else quote
        parts += [text[end:start], quote, change.new, quote]
        end = start + len(spelt)
    return "".join([*parts, text[end:]])


def write(file: Rewritten) -> None:
    """Replace the file in one step; a link stays a link.

    Raises: IngotError if it cannot be written.
    """
    target = Path(os.path.realpath(file.path))
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        try:
            temporary.write_bytes(file.text.encode())
            shutil.copymode(target, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise IngotError(f"{file.path}: cannot be written: {error.strerror}") from error
