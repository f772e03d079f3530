"""Define the errors that users see, with all data in fields and the text in `__str__`.

Every error that a user can cause is an IngotError. The command line prints it without a
traceback.
"""

from __future__ import annotations

from dataclasses import dataclass

# An error lists at most this many known words; of more, it lists the nearest ones.
N_LISTED = 40
N_NEAREST = 5


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a text file; line and column count from 1."""

    path: str
    line: int
    column: int

    def __str__(self) -> str:
        """Return `path:line:column`."""
        return f"{self.path}:{self.line}:{self.column}"


class IngotError(Exception):
    """An error with a message for the user, and a hint at how to go on."""

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep the message and the hint apart, so that tests can compare them."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return the message, and the hint indented below it."""
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


class ManifestError(IngotError):
    """An error in a manifest or another YAML file, with its position."""

    def __init__(
        self, position: Position, key: str, message: str, hint: str = ""
    ) -> None:
        """Keep position, key path (`blocks.layer.nodes[2].uses`) and message."""
        super().__init__(message, hint)
        self.position = position
        self.key = key

    def __str__(self) -> str:
        """Return `path:line:col: key.path: what is wrong`, and the hint below it."""
        head = f"{self.position}: {self.key}: " if self.key else f"{self.position}: "
        return head + super().__str__()


def did_you_mean(word: str, known: list[str] | tuple[str, ...], noun: str) -> str:
    """Return a hint: the words that are near, or the known words, at most a few.

    What is near is one word; of models also those that continue it, as `smollm2-135m`
    and `smollm2-135m-instruct`.
    """
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        if noun == "models":
            longer = (name for name in known if name.startswith(f"{close[0]}-"))
            close += sorted(longer)[:N_NEAREST]
        near = " or ".join(f"'{name}'" for name in close)
        return f"did you mean {near}?"
    if len(known) > N_LISTED:
        close = difflib.get_close_matches(word, known, n=N_NEAREST, cutoff=0.0)
        return f"the nearest of {len(known)} {noun}: {', '.join(close)}"
    return f"known {noun}: {', '.join(sorted(known)) or 'none'}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return "1 entry" or "2 entries"; the default plural adds an "s"."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
